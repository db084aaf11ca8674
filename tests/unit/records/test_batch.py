"""The header of a batch: what its fields mean, and what is changed in place."""

from __future__ import annotations

import pytest

from penstock.records import kernel
from penstock.records.batch import (
    DELETE_HORIZON_MASK,
    HEADER_BYTES,
    BatchHeader,
    Compression,
    NewRecord,
    Record,
    TimestampType,
    assign_offsets,
    read_magic,
    set_max_timestamp,
    stamp_append_time,
)

RECORDS = [NewRecord(1000 + i, b"key", b"value", ()) for i in range(3)]


def header_of(batch: bytearray) -> BatchHeader:
    return kernel.check_batch(batch)


def test_a_header_has_the_offsets_of_its_batch() -> None:
    header = header_of(kernel.build_batch(RECORDS, base_offset=100))

    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)


def test_attributes_are_decoded() -> None:
    batch = kernel.build_batch(RECORDS, compression=Compression.LZ4, is_transactional=True, is_control=True)

    header = header_of(batch)

    assert header.compression is Compression.LZ4
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert header.is_control
    assert header.delete_horizon_ms is None


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    header = header_of(kernel.build_batch(RECORDS))._replace(attributes=DELETE_HORIZON_MASK)

    assert header.delete_horizon_ms == 1000


def test_sequences_wrap_to_zero() -> None:
    batch = kernel.build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)

    assert header_of(batch).last_sequence == 0


def test_a_batch_without_a_producer_id_has_no_sequence() -> None:
    header = header_of(kernel.build_batch(RECORDS))

    assert not header.has_producer_id
    assert header.last_sequence == -1


def test_assigning_offsets_keeps_the_checksum_valid() -> None:
    batch = kernel.build_batch(RECORDS)
    before = header_of(batch)

    assign_offsets(memoryview(batch), 0, base_offset=2**40, leader_epoch=7)

    assert header_of(batch) == before._replace(base_offset=2**40, leader_epoch=7)


def test_assigning_offsets_to_the_second_batch_keeps_the_first() -> None:
    first = kernel.build_batch(RECORDS)
    both = first + kernel.build_batch(RECORDS)

    assign_offsets(both, len(first), base_offset=3, leader_epoch=1)

    assert [header.base_offset for header in kernel.check_batches(both)] == [0, 3]


def test_append_time_applies_to_every_record() -> None:
    batch = kernel.build_batch(RECORDS, compression=Compression.GZIP)

    stamp_append_time(batch, 0, 5_000)

    header = header_of(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 5_000
    assert header.base_timestamp == 1000
    assert [record.timestamp for record in kernel.iterate_records(batch)] == [5_000] * 3


def test_the_checksum_covers_a_corrected_max_timestamp() -> None:
    prefix = b"before"
    batch = bytearray(prefix) + kernel.build_batch(RECORDS) + b"after"

    set_max_timestamp(batch, len(prefix), 77)

    assert kernel.check_batch(batch, len(prefix)).max_timestamp == 77


def test_the_magic_byte_is_found_in_every_format() -> None:
    batch = kernel.build_batch(RECORDS)
    message = kernel.write_messages([Record(0, 1, b"k", b"v")], magic=1)

    assert read_magic(batch) == 2
    assert read_magic(message) == 1
    assert read_magic(message + batch, len(message)) == 2


@pytest.mark.parametrize("field", BatchHeader._fields)
def test_every_field_of_a_header_is_read_from_its_own_bytes(field: str) -> None:
    """Protects the compiled layout: swapped fields would be equal in most batches."""
    batch = kernel.build_batch(
        [Record(10, 1_111, b"k", b"v"), Record(15, 2_222, b"k", b"v")],
        producer_id=3_333,
        producer_epoch=44,
        base_sequence=555,
        leader_epoch=66,
        is_transactional=True,
    )
    expected = {
        "base_offset": 10,
        "size_bytes": len(batch),
        "leader_epoch": 66,
        "magic": 2,
        "crc": int.from_bytes(batch[17:21], "big"),
        "attributes": 16,
        "last_offset_delta": 5,
        "base_timestamp": 1_111,
        "max_timestamp": 2_222,
        "producer_id": 3_333,
        "producer_epoch": 44,
        "base_sequence": 555,
        "record_count": 2,
    }

    assert getattr(kernel.read_header(batch), field) == expected[field]
    assert len(expected) == len(BatchHeader._fields)
    assert HEADER_BYTES == 61
