"""Every rule for what producers may write, with the error that Kafka's clients expect."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_BYTES,
    BatchHeader,
    Compression,
    Record,
    TimestampType,
)
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, compress
from penstock.records.convert import down_convert, recompress
from penstock.records.crc import crc32c
from penstock.replication.validation import (
    EFFORT_BYTES,
    MESSAGE_SET_BYTES_MAX,
    Effort,
    ProduceRules,
    RecordsRefused,
    TakesLong,
    validate,
)

NOW = 1_700_000_000_000
HOUR = 3_600_000
V13 = 13


def batch(count: int = 3, *, timestamp: int = NOW, key: bytes | None = b"k", **options: Any) -> bytearray:
    return kernel.build_batch([(timestamp, key, b"value-%d" % n, ()) for n in range(count)], **options)


def check(
    records: bytes | bytearray, rules: ProduceRules | None = None, *, version: int = V13
) -> tuple[memoryview, BatchHeader]:
    admitted, headers = validate(
        memoryview(bytearray(records)), rules or ProduceRules(), request_version=version, now_ms=NOW
    )
    (header,) = headers
    return admitted, header


def refusal(records: bytes | bytearray, rules: ProduceRules | None = None, *, version: int = V13) -> Refused:
    with pytest.raises(Refused) as caught:
        check(records, rules, version=version)
    return caught.value


def test_a_valid_batch_is_accepted_unchanged() -> None:
    sent = batch()
    view = memoryview(sent)

    admitted, headers = validate(view, ProduceRules(), request_version=V13, now_ms=NOW)

    assert admitted is view
    assert [header.record_count for header in headers] == [3]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_every_codec_is_accepted_unchanged(codec: Compression) -> None:
    sent = batch(compression=codec)

    admitted, header = check(sent)

    assert bytes(admitted) == bytes(sent)
    assert header.compression == codec


@pytest.mark.parametrize("records", [b"", b"\x00" * 16])
def test_no_batch_at_all(records: bytes) -> None:
    assert refusal(records).error == ErrorCode.INVALID_RECORD


def test_half_a_batch() -> None:
    assert refusal(batch()[:-1]).error == ErrorCode.CORRUPT_MESSAGE


def test_a_flipped_bit() -> None:
    damaged = batch()
    damaged[-1] ^= 1

    assert refusal(damaged).error == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("version", [2, 3, 13])
def test_more_than_one_batch(version: int) -> None:
    assert refusal(batch() + batch(), version=version).error == ErrorCode.INVALID_RECORD


def test_a_batch_that_does_not_start_at_offset_zero() -> None:
    assert refusal(batch(base_offset=5)).error == ErrorCode.INVALID_RECORD


def test_producers_cannot_write_control_records() -> None:
    sent = batch(1, is_control=True, producer_id=1, producer_epoch=0, base_sequence=0)

    assert refusal(sent).error == ErrorCode.INVALID_RECORD


def test_transactional_batches_need_a_producer_id() -> None:
    assert refusal(batch(1, is_transactional=True)).error == ErrorCode.INVALID_RECORD

    sent = memoryview(batch(1, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
    _, headers = validate(sent, ProduceRules(), request_version=V13, now_ms=NOW)
    assert headers[0].is_transactional


def test_producers_cannot_use_log_append_time() -> None:
    sent = batch(timestamp_type=TimestampType.LOG_APPEND_TIME)

    assert refusal(sent).error == ErrorCode.INVALID_TIMESTAMP


def test_a_producer_with_an_id_must_send_a_sequence() -> None:
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=-1)

    assert refusal(sent).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("version", "is_taken"), [(6, False), (7, True)])
def test_zstd_needs_produce_version_7(version: int, is_taken: bool) -> None:
    sent = batch(compression=Compression.ZSTD)

    if is_taken:
        check(sent, version=version)
    else:
        assert refusal(sent, version=version).error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_may_be_as_large_as_the_topic_allows_and_not_a_byte_larger() -> None:
    sent = batch()

    check(sent, ProduceRules(max_message_bytes=len(sent)))

    too_large = refusal(sent, ProduceRules(max_message_bytes=len(sent) - 1))
    assert too_large.error == ErrorCode.MESSAGE_TOO_LARGE


# -- compressed batches

COMPRESSED = [codec for codec in Compression if codec is not Compression.NONE]


def rewritten(sent: bytearray, **fields: int) -> bytearray:
    """The batch with other numbers in its header, and a valid checksum."""
    lying = bytearray(sent)
    header = kernel.read_header(sent)._replace(size_bytes=len(sent) - LENGTH_BYTES, **fields)
    HEADER.pack_into(lying, 0, *header)
    HEADER.pack_into(lying, 0, *header._replace(crc=crc32c(bytes(lying[CRC_START:]))))
    return lying


def bomb(codec: Compression, payload_bytes: int) -> bytearray:
    """A batch of the smallest possible records: a few compressed bytes become very many."""
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    count = payload_bytes // len(record)
    sent = kernel.build_batch([(NOW, None, None, ())])
    plain = rewritten(sent[:HEADER_BYTES] + record * count, record_count=count, last_offset_delta=count - 1)
    return recompress(plain, codec)


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("count", [1, 2, 4, 2**31 - 1])
def test_a_compressed_batch_with_a_wrong_count(codec: Compression, count: int) -> None:
    lying = rewritten(batch(compression=codec), record_count=count, last_offset_delta=count - 1)

    assert refusal(lying).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
def test_an_uncompressed_batch_that_declares_a_codec(codec: Compression) -> None:
    assert refusal(rewritten(batch(), attributes=codec)).error == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
def test_a_compressed_batch_with_gaps_in_its_offsets(codec: Compression) -> None:
    records = [Record(0, NOW, b"k", b"v"), Record(2, NOW, b"k", b"v")]
    lying = rewritten(kernel.build_batch(records, compression=codec), last_offset_delta=1)

    assert refusal(lying).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
def test_a_batch_that_becomes_too_large_for_any_node(codec: Compression) -> None:
    sent = bomb(codec, DECOMPRESSED_BYTES_MAX + 100)

    assert refusal(sent, ProduceRules(max_message_bytes=2**30)).error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
def test_validation_that_takes_long_is_left_to_a_worker(codec: Compression) -> None:
    sent = bomb(codec, 2 * EFFORT_BYTES)
    rules = ProduceRules(max_message_bytes=2**30)

    with pytest.raises(TakesLong):
        validate(memoryview(sent), rules, request_version=V13, now_ms=NOW, effort=Effort())

    # A worker has time, and finds that one offset occurs many times.
    assert refusal(sent, rules).error == ErrorCode.INVALID_RECORD


def test_effort_is_counted_over_all_batches_of_a_request() -> None:
    sent = kernel.build_batch([(NOW, b"k", bytes(EFFORT_BYTES // 3), ())], compression=Compression.ZSTD)
    effort = Effort()

    for _ in range(2):
        validate(memoryview(bytearray(sent)), ProduceRules(), request_version=V13, now_ms=NOW, effort=effort)
    with pytest.raises(TakesLong):
        validate(memoryview(sent), ProduceRules(), request_version=V13, now_ms=NOW, effort=effort)


def test_recompressing_much_is_left_to_a_worker() -> None:
    sent = kernel.build_batch([(NOW, b"k", bytes(500_000), ())])
    rules = ProduceRules(compression=Compression.GZIP)

    with pytest.raises(TakesLong):
        validate(memoryview(sent), rules, request_version=V13, now_ms=NOW, effort=Effort())
    assert check(sent, rules)[1].compression == Compression.GZIP


# -- timestamps


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("claimed", [5, NOW + 10 * HOUR, -1])
def test_a_wrong_max_timestamp_is_corrected(codec: Compression, claimed: int) -> None:
    admitted, header = check(rewritten(batch(compression=codec), max_timestamp=claimed))

    assert header.max_timestamp == NOW
    assert kernel.check_batch(admitted) == header


def test_records_from_the_future_are_found_whatever_the_header_says() -> None:
    lying = rewritten(batch(timestamp=NOW + 10 * HOUR), max_timestamp=NOW)

    assert refusal(lying).error == ErrorCode.INVALID_TIMESTAMP


def test_a_timestamp_may_be_an_hour_ahead_but_not_more() -> None:
    check(batch(timestamp=NOW + HOUR))

    late = refusal(batch(timestamp=NOW + HOUR + 1))
    assert late.error == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(late, RecordsRefused)
    assert [fault.record_index for fault in late.faults] == [0, 1, 2]


def test_without_a_bound_any_age_is_accepted() -> None:
    check(batch(timestamp=0))


def test_with_a_bound_old_records_are_named_one_by_one() -> None:
    sent = kernel.build_batch([(NOW, None, b"a", ()), (NOW - 2000, None, b"b", ()), (NOW, None, b"c", ())])

    refused = refusal(sent, ProduceRules(timestamp_before_max_ms=1000))

    assert isinstance(refused, RecordsRefused)
    assert refused.error == ErrorCode.INVALID_TIMESTAMP
    assert [fault.record_index for fault in refused.faults] == [1]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_the_bound_applies_to_compressed_batches_too(codec: Compression) -> None:
    sent = kernel.build_batch([(NOW - 2000, None, b"b", ()), (NOW, None, b"a", ())], compression=codec)

    assert refusal(sent, ProduceRules(timestamp_before_max_ms=1000)).error == ErrorCode.INVALID_TIMESTAMP


def test_with_log_append_time_the_producers_timestamps_are_ignored() -> None:
    rules = ProduceRules(stamps_append_time=True, timestamp_before_max_ms=1000)

    admitted, header = check(batch(timestamp=NOW + 10 * HOUR), rules)

    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == NOW
    assert [record.timestamp for record in kernel.iterate_records(admitted)] == [NOW, NOW, NOW]
    kernel.check_batch(admitted)


# -- keys


def test_a_compacted_topic_needs_keys() -> None:
    rules = ProduceRules(needs_keys=True)
    sent = kernel.build_batch([(NOW, b"k", b"a", ()), (NOW, None, b"b", ()), (NOW, None, b"c", ())])

    check(batch(), rules)
    refused = refusal(sent, rules)

    assert isinstance(refused, RecordsRefused)
    assert refused.error == ErrorCode.INVALID_RECORD
    assert [fault.record_index for fault in refused.faults] == [1, 2]


def test_an_error_names_a_bounded_number_of_records() -> None:
    refused = refusal(batch(5000, key=None), ProduceRules(needs_keys=True))

    assert isinstance(refused, RecordsRefused)
    assert len(refused.faults) == 100


# -- compression


@pytest.mark.parametrize("target", list(Compression), ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("source", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_a_topic_may_have_its_own_compression(source: Compression, target: Compression) -> None:
    sent = batch(compression=source, producer_id=4, producer_epoch=1, base_sequence=9)

    admitted, header = check(sent, ProduceRules(compression=target))

    assert header.compression == target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    assert list(kernel.iterate_records(admitted)) == list(kernel.iterate_records(sent))
    kernel.check_batch(admitted)


def test_a_batch_that_grows_when_decompressed_must_still_fit() -> None:
    sent = kernel.build_batch([(NOW, None, b"x" * 10_000, ())], compression=Compression.ZSTD)

    refused = refusal(sent, ProduceRules(compression=Compression.NONE, max_message_bytes=5000))

    assert refused.error == ErrorCode.MESSAGE_TOO_LARGE


def test_append_time_and_recompression_go_together() -> None:
    admitted, header = check(batch(), ProduceRules(compression=Compression.GZIP, stamps_append_time=True))

    assert header.compression == Compression.GZIP
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert kernel.check_batch(admitted) == header


# -- message sets


@pytest.mark.parametrize(("magic", "version"), [(0, 0), (0, 1), (1, 2), (0, 2)])
def test_message_sets_of_old_producers_become_batches(magic: int, version: int) -> None:
    old = down_convert(batch(), magic=magic)

    admitted, header = check(old, version=version)

    assert header.record_count == 3
    assert [record.value for record in kernel.iterate_records(admitted)] == [
        b"value-0",
        b"value-1",
        b"value-2",
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_compressed_message_sets_are_opened_by_a_worker(magic: int, codec: Compression) -> None:
    old = down_convert(batch(compression=codec), magic=magic)

    with pytest.raises(TakesLong):
        validate(memoryview(old), ProduceRules(), request_version=2, now_ms=NOW, effort=Effort())
    assert check(old, version=2)[1].record_count == 3


def test_a_message_set_that_becomes_too_large() -> None:
    message = kernel.write_messages([Record(0, NOW, None, None)], magic=1)
    inner = compress(Compression.GZIP, bytes(message) * (MESSAGE_SET_BYTES_MAX // len(message) + 1))
    old = kernel.write_messages([Record(0, NOW, None, bytes(inner))], magic=1, codec=Compression.GZIP)

    assert refusal(old, version=2).error == ErrorCode.MESSAGE_TOO_LARGE


def test_a_message_set_far_beyond_the_limit_is_refused_unread() -> None:
    old = down_convert(batch(), magic=1) * 20

    assert refusal(old, ProduceRules(max_message_bytes=200), version=2).error == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_message_sets_stay_compressed(magic: int) -> None:
    old = down_convert(batch(compression=Compression.GZIP), magic=magic)

    _, header = check(old, version=2)

    assert header.compression == Compression.GZIP


def test_from_version_3_on_message_sets_are_refused() -> None:
    assert refusal(down_convert(batch(), magic=1), version=3).error == ErrorCode.INVALID_RECORD


def test_a_damaged_message_set_is_refused() -> None:
    old = down_convert(batch(), magic=1)
    old[-1] ^= 1

    assert refusal(old, version=2).error == ErrorCode.CORRUPT_MESSAGE


# -- settings


class Settings:
    def __init__(self, **values: Any) -> None:
        self._values = {
            "max.message.bytes": 1000,
            "compression.type": "producer",
            "compression.gzip.level": -1,
            "compression.lz4.level": 9,
            "compression.zstd.level": 3,
            "message.timestamp.type": "CreateTime",
            "message.timestamp.before.max.ms": 5,
            "message.timestamp.after.max.ms": 6,
            "cleanup.policy": ("delete",),
            "min.insync.replicas": 2,
        } | {name.replace("_", "."): value for name, value in values.items()}

    def get(self, name: str, /) -> Any:
        return self._values[name]


def test_rules_are_read_from_settings() -> None:
    assert ProduceRules.read(Settings()) == ProduceRules(
        max_message_bytes=1000,
        compression=None,
        compression_level=None,
        stamps_append_time=False,
        timestamp_before_max_ms=5,
        timestamp_after_max_ms=6,
        needs_keys=False,
        min_insync_replicas=2,
    )


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("uncompressed", Compression.NONE, None),
        ("gzip", Compression.GZIP, None),
        ("snappy", Compression.SNAPPY, None),
        ("lz4", Compression.LZ4, 9),
        ("zstd", Compression.ZSTD, 3),
    ],
)
def test_compression_is_read_with_its_level(name: str, codec: Compression, level: int | None) -> None:
    rules = ProduceRules.read(Settings(compression_type=name))

    assert (rules.compression, rules.compression_level) == (codec, level)


def test_compaction_and_append_time_are_read() -> None:
    rules = ProduceRules.read(
        Settings(cleanup_policy=("compact", "delete"), message_timestamp_type="LogAppendTime")
    )

    assert rules.needs_keys
    assert rules.stamps_append_time
