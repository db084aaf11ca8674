"""Records of the metadata log as bytes, held to bytes that Apache Kafka 4.3.1 wrote."""

from __future__ import annotations

import pytest

from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.framing import decode_record, decode_versioned, encode_record
from penstock.metadata.records import (
    RECORDS,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.protocol.types import Uuid

TOPIC_ID = Uuid(bytes(range(16)))

WRITTEN_BY_KAFKA = {
    "01170001001212426f6f747374726170207265636f726473": BeginTransactionRecord(name="Bootstrap records"),
    "010c00116d657461646174612e76657273696f6e001e00": FeatureLevelRecord(
        name="metadata.version", feature_level=30
    ),
    "0104000401146d696e2e696e73796e632e7265706c69636173023100": ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="1"
    ),
    "01180000": EndTransactionRecord(),
    "01110300000001000000000000000b01030101": BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=11, cordoned_log_dirs=[]
    ),
    "01140000": NoOpRecord(),
}


@pytest.mark.parametrize("written", WRITTEN_BY_KAFKA)
def test_a_record_reads_and_writes_as_kafka_wrote_it(written: str) -> None:
    expected = WRITTEN_BY_KAFKA[written]

    assert decode_record(bytes.fromhex(written)) == expected
    assert encode_record(expected) == bytes.fromhex(written)


def test_an_older_version_of_a_record_is_read() -> None:
    unfenced = decode_record(bytes.fromhex("01110000000001000000000000000b010001ff"))

    assert unfenced == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=-1)


def test_every_type_of_record_has_a_place_in_the_table() -> None:
    assert set(range(29)) - set(RECORDS) == {6, 13, 16}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "cannot be decoded"),
        (b"\x02\x14\x00\x00", "frame version 2"),
        (b"\x01\x06\x00", "unknown metadata record type 6"),
        (b"\x01\x14\x07\x00", "unknown version 7 of NoOpRecord"),
        (b"\x01\x14\x00\x00!", "1 unexpected bytes"),
        (b"\x01\x02\x00\x05ab", "cannot be decoded"),
        (b"\xff\xff\xff\xff\xff\xff", "invalid varint"),
    ],
)
def test_an_unreadable_record_is_refused(value: bytes, message: str) -> None:
    with pytest.raises(CorruptMetadata, match=message):
        decode_record(value)


def test_a_record_round_trips() -> None:
    record = TopicRecord(name="orders", topic_id=Uuid(bytes(range(16))))

    assert decode_record(memoryview(encode_record(record))) == record


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (
            PartitionRecord(
                topic_id=TOPIC_ID, replicas=[1], isr=[1], removing_replicas=[], adding_replicas=[]
            ),
            {19: 1, 22: 1, 23: 2, 30: 2},
        ),
        (PartitionChangeRecord(topic_id=TOPIC_ID, leader=1), {19: 1, 22: 1, 23: 2, 30: 2}),
        (
            RegisterBrokerRecord(
                broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=1, end_points=[], features=[], rack=None
            ),
            {19: 3, 29: 3, 30: 4},
        ),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1), {19: 2, 29: 2, 30: 3}),
        (NoOpRecord(), {19: 0, 30: 0}),
    ],
)
def test_the_metadata_version_decides_the_versions_of_records(
    record: object, versions: dict[int, int]
) -> None:
    for metadata_version, expected in versions.items():
        assert decode_versioned(encode_record(record, metadata_version))[1] == expected
