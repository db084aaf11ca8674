"""Record batches, format v2: the 61-byte header, its fields, and what is changed in place.

    base_offset i64 | length i32 | leader_epoch i32 | magic i8 | crc u32 |
    attributes i16 | last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 |
    producer_id i64 | producer_epoch i16 | base_sequence i32 | record_count i32 | records ...

The CRC covers everything after itself. Base offset and leader epoch precede it, so a broker assigns them without
reading the rest: `assign_offsets` must stay two small writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from penstock.protocol.constants import NO_LEADER_EPOCH as NO_LEADER_EPOCH
from penstock.records.crc import crc32c

HEADER_BYTES = 61
LENGTH_BYTES = 12  # base offset and length, which the length field does not count
CRC_START = 21  # the first byte that the CRC covers
MAGIC = 2

LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
RECORD_COUNT_AT = 57

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40  # KIP-534: base_timestamp is the time after which tombstones may be removed

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MAX = 2**31 - 1  # sequences wrap to 0 after this
PRODUCER_EPOCH_MAX = 2**15 - 1  # after this the producer gets another producer id
BATCH_BYTES_MAX = 2**31 - 1  # the length field is a signed 32-bit number

HEADER = Struct(">qiibIhiqqqhii")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT64 = Struct(">q")

assert HEADER.size == HEADER_BYTES

Buffer = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header fields; `size_bytes` is the size of the whole batch, not the length field."""

    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 if the batch has none. Sequences wrap to 0 after 2**31 - 1."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def compression(self) -> Compression:
        """Raises ValueError for the three unused codec numbers; a checked batch never has them."""
        return Compression(self.attributes & COMPRESSION_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & TIMESTAMP_TYPE_MASK) >> 3)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None


class Record(NamedTuple):
    """One record read from a log, with its absolute offset and the timestamp that a consumer sees."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record without an offset; a plain tuple of the same four fields works too."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordRows(NamedTuple):
    """New records that differ only in a few numbers, stored by column: the offset commits of a group coordinator.

    A key is `key_start | int32`, a value `value_start | int64 | int32 | value_end`.
    """

    timestamp: int
    key_start: bytes
    key_numbers: list[int]
    value_start: bytes
    value_longs: list[int]
    value_ints: list[int]
    value_end: bytes

    def records(self) -> list[NewRecord]:
        """The same records one by one; ValueError if columns differ in length, OverflowError for a number that does
        not fit."""
        timestamp, key_start, key_numbers, value_start, value_longs, value_ints, value_end = self
        return [
            NewRecord(
                timestamp,
                key_start + number.to_bytes(4, "big", signed=True),
                b"".join(
                    (
                        value_start,
                        value_long.to_bytes(8, "big", signed=True),
                        value_int.to_bytes(4, "big", signed=True),
                        value_end,
                    )
                ),
            )
            for number, value_long, value_int in zip(key_numbers, value_longs, value_ints, strict=True)
        ]


class RecordScan(NamedTuple):
    """What a broker checks of a batch's records, without decoding them."""

    min_timestamp: int
    max_timestamp: int
    keyless_count: int
    has_consecutive_offsets: bool
    """Offset deltas are 0, 1, 2, ..., as a producer must send them; compaction leaves gaps."""
    payload_bytes: int
    """The uncompressed size of the records: the cost of the scan."""


def read_magic(view: Buffer, position: int = 0) -> int:
    """The format of the batch or message at `position`; the byte is at the same place in every format."""
    return view[position + MAGIC_AT]


def join_batch(header: BatchHeader, payload: Buffer) -> bytearray:
    """A batch with this header and these encoded records; the length and the CRC are computed."""
    size_bytes = HEADER_BYTES + len(payload)
    if size_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {size_bytes} bytes is too large")
    batch = bytearray(HEADER.pack(*header._replace(size_bytes=size_bytes - LENGTH_BYTES)))
    batch += payload
    with memoryview(batch) as view:
        crc = crc32c(view[CRC_START:])
    _UINT32.pack_into(batch, CRC_AT, crc)
    return batch


def assign_offsets(
    view: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int
) -> None:
    """Set base offset and leader epoch of the batch at `position`. The CRC does not cover them."""
    _INT64.pack_into(view, position, base_offset)
    _INT32.pack_into(view, position + LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(view: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Set LogAppendTime for all records of the batch, by one attribute and one field, and update the CRC."""
    (attributes,) = _INT16.unpack_from(view, position + ATTRIBUTES_AT)
    _INT16.pack_into(view, position + ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_MASK)
    set_max_timestamp(view, position, timestamp_ms)


def set_max_timestamp(view: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Set the max timestamp, and update the CRC."""
    _INT64.pack_into(view, position + MAX_TIMESTAMP_AT, timestamp_ms)
    (length,) = _INT32.unpack_from(view, position + LENGTH_AT)
    covered = memoryview(view)[position + CRC_START : position + LENGTH_BYTES + length]
    _UINT32.pack_into(view, position + CRC_AT, crc32c(covered))
