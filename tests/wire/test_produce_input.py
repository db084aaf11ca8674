"""Produce with corrupt, inconsistent or misplaced records.

A refused batch leaves no trace in the log: the end offset is the same as before. Also run against Apache Kafka
(`--broker=kafka`), except marked tests; where Kafka returns UNKNOWN_SERVER_ERROR, Penstock returns a specific error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.requests import ClosedByPeer, ask, batch, create_topic, fetch, produce, rewritten, values
from harness.wire import WireConnection, end_offset
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel
from penstock.records.batch import Compression, Record

INT31 = 2**31 - 1
PLAIN = batch(b"a", b"b")
NOW = int(time.time() * 1000)
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.fixture
def connection(cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(cluster.port) as connection:
        yield connection


@pytest.fixture
def topic(connection: WireConnection) -> str:
    name = new_name("produced")
    create_topic(connection, name)
    return name


def refused_with(connection: WireConnection, topic: str, records: bytes | None) -> ErrorCode:
    """The error of a batch that must leave no trace in the log."""
    answer = produce(connection, topic, records)
    assert answer.base_offset == -1
    assert end_offset(connection, topic, 0) == 0
    return answer.error_code


LYING = {
    "more records than there are": rewritten(PLAIN, record_count=3),
    "more records and offsets": rewritten(PLAIN, record_count=3, last_offset_delta=2),
    "fewer records than there are": rewritten(PLAIN, record_count=1),
    "fewer records and offsets": rewritten(PLAIN, record_count=1, last_offset_delta=0),
    "no records": rewritten(PLAIN, record_count=0),
    "a negative count": rewritten(PLAIN, record_count=-1),
    "two billion records": rewritten(PLAIN, record_count=INT31, last_offset_delta=INT31 - 1),
    "offsets to spare": rewritten(PLAIN, last_offset_delta=5),
    "negative offsets": rewritten(PLAIN, last_offset_delta=-1),
    "an offset of its own": rewritten(PLAIN, base_offset=7),
    "a negative offset": rewritten(PLAIN, base_offset=-1),
    "control records": rewritten(PLAIN, attributes=0x20),
    "a producer that does not count": rewritten(PLAIN, producer_id=5, producer_epoch=0, base_sequence=-1),
    "two batches": PLAIN + PLAIN,
    "no batch": b"",
    "half a header": PLAIN[:16],
}

DAMAGED = {
    "a wrong checksum": rewritten(PLAIN, crc=1),
    "a length of nothing": rewritten(PLAIN, size_bytes=12),
    "a negative length": rewritten(PLAIN, size_bytes=7),
    "a length inside the header": rewritten(PLAIN, size_bytes=60),
    "a length one too short": rewritten(PLAIN, size_bytes=len(PLAIN) - 1),
    "zeroes": bytes(16) + b"\x02" + bytes(44),
}


@pytest.mark.parametrize("records", LYING.values(), ids=LYING.keys())
def test_a_batch_that_lies_is_an_invalid_record(
    connection: WireConnection, topic: str, records: bytes
) -> None:
    assert refused_with(connection, topic, records) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("records", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_batch_that_is_damaged_is_corrupt(connection: WireConnection, topic: str, records: bytes) -> None:
    assert refused_with(connection, topic, records) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("count", [1, 3])
def test_a_compressed_batch_whose_count_lies_is_an_invalid_record(
    connection: WireConnection, topic: str, codec: Compression, count: int
) -> None:
    records = rewritten(batch(b"a", b"b", compression=codec), record_count=count, last_offset_delta=count - 1)

    assert refused_with(connection, topic, records) == ErrorCode.INVALID_RECORD


@pytest.mark.penstock_only("Kafka answers UNKNOWN_SERVER_ERROR")
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_a_batch_that_cannot_be_decompressed_is_corrupt(
    connection: WireConnection, topic: str, codec: Compression
) -> None:
    compressed = batch(b"a", b"b", compression=codec)

    assert refused_with(connection, topic, rewritten(PLAIN, attributes=codec)) == ErrorCode.CORRUPT_MESSAGE
    cut_off = rewritten(compressed[:-4])
    assert refused_with(connection, topic, cut_off) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@pytest.mark.penstock_only("Kafka answers UNKNOWN_SERVER_ERROR")
def test_a_codec_that_does_not_exist_is_unsupported(connection: WireConnection, topic: str) -> None:
    for codec in (5, 6, 7):
        records = rewritten(PLAIN, attributes=codec)
        assert refused_with(connection, topic, records) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.penstock_only("Kafka answers UNKNOWN_SERVER_ERROR")
def test_a_compressed_batch_with_gaps_in_its_offsets_is_an_invalid_record(
    connection: WireConnection, topic: str
) -> None:
    gaps = kernel.build_batch(
        [Record(0, NOW, b"k", b"a"), Record(2, NOW, b"k", b"b")], compression=Compression.GZIP
    )

    assert refused_with(connection, topic, rewritten(gaps, last_offset_delta=1)) == ErrorCode.INVALID_RECORD


@pytest.mark.penstock_only("Kafka never answers")
def test_no_records_at_all_are_an_invalid_record(connection: WireConnection, topic: str) -> None:
    assert refused_with(connection, topic, None) == ErrorCode.INVALID_RECORD


@pytest.mark.penstock_only("Kafka takes the first batch and drops the rest without a word")
def test_bytes_after_the_batch_are_refused(connection: WireConnection, topic: str) -> None:
    assert refused_with(connection, topic, PLAIN + b"abc") == ErrorCode.INVALID_RECORD


def test_a_record_from_the_future_is_named(connection: WireConnection, topic: str) -> None:
    records = bytes(kernel.build_batch([(NOW, None, b"a", ()), (2**62, None, b"b", ())]))
    answer = produce(connection, topic, records)

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [fault.batch_index for fault in answer.record_errors] == [1]
    assert end_offset(connection, topic, 0) == 0


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("claimed", [5, 2**62])
def test_a_largest_timestamp_that_no_record_has_is_set_right(
    connection: WireConnection, topic: str, codec: Compression, claimed: int
) -> None:
    sent = rewritten(batch(b"a", b"b", compression=codec), max_timestamp=claimed)
    assert produce(connection, topic, sent).error_code == ErrorCode.NONE

    header = kernel.check_batch(fetch(connection, topic).records)
    assert header.max_timestamp == header.base_timestamp


@pytest.mark.parametrize(
    ("name", "partition"),
    [("absent", 0), ("../x", 0), ("a\x00b", 0), ("__cluster_metadata", 0), ("", 0), (None, -1), (None, 9)],
)
def test_a_partition_that_does_not_exist_is_unknown(
    connection: WireConnection, topic: str, name: str | None, partition: int
) -> None:
    answer = produce(connection, topic if name is None else name, PLAIN, partition=partition)

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [2, -2, 2**15 - 1, -(2**15)])
def test_other_numbers_of_acks_are_refused(connection: WireConnection, topic: str, acks: int) -> None:
    answer = produce(connection, topic, PLAIN, acks=acks)

    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize(
    "records", [rewritten(PLAIN, crc=1), PLAIN + PLAIN], ids=["wrong crc", "two batches"]
)
def test_with_acks_0_an_error_closes_the_connection(
    connection: WireConnection, topic: str, records: bytes
) -> None:
    with pytest.raises(ClosedByPeer):
        produce(connection, topic, records, acks=0)


@pytest.mark.parametrize(
    ("configs", "records", "error"),
    [
        ({"cleanup_policy": "compact"}, [(NOW, None, b"v", ())], ErrorCode.INVALID_RECORD),
        ({"max_message_bytes": "200"}, [(NOW, None, bytes(300), ())], ErrorCode.MESSAGE_TOO_LARGE),
        (
            {"segment_bytes": "1048576", "max_message_bytes": "20000000"},
            [(NOW, None, bytes(2_000_000), ())],
            ErrorCode.RECORD_LIST_TOO_LARGE,
        ),
        (
            {"message_timestamp_before_max_ms": "1000"},
            [(NOW - 1_000_000, None, b"v", ())],
            ErrorCode.INVALID_TIMESTAMP,
        ),
    ],
)
def test_a_topics_own_rules(
    connection: WireConnection,
    configs: dict[str, str],
    records: list[tuple[int, bytes | None, bytes, tuple[()]]],
    error: ErrorCode,
) -> None:
    name = new_name("ruled")
    create_topic(connection, name, **configs)

    assert refused_with(connection, name, bytes(kernel.build_batch(records))) == error


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_needs_version_7(connection: WireConnection, topic: str, version: int) -> None:
    answer = produce(connection, topic, batch(b"a", compression=Compression.ZSTD), version=version)

    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("topic_id", [bytes(16), b"x" * 16], ids=["zero", "unknown"])
def test_a_topic_id_that_does_not_exist_is_unknown(connection: WireConnection, topic_id: bytes) -> None:
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=PLAIN)])
        ],
    )

    (answered,) = ask(connection, request, 13).responses
    assert answered.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_request_with_ten_thousand_partitions_has_a_result_for_each(
    connection: WireConnection, topic: str
) -> None:
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=index, records=PLAIN) for index in range(10_000)],
            )
        ],
    )

    (answered,) = ask(connection, request, 9).responses
    errors = {answer.index: answer.error_code for answer in answered.partition_responses}
    assert len(errors) == 10_000
    assert errors[0] == ErrorCode.NONE
    assert set(errors.values()) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert values(fetch(connection, topic).records) == [b"a", b"b"]
