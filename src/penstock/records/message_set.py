"""Message sets: the record formats v0 and v1 of clients older than 0.11.

A set is a sequence of messages. A compressed message is a wrapper: its value is another set, one level deep. In v1 the
offsets inside a wrapper count from the first, and the wrapper has the absolute offset of the last; in v0 they are
absolute. A wrapper with LogAppendTime gives its timestamp to every message in it.

The header checksum of LZ4 frames in v0 wrongly covers the frame's magic number, because the first client wrote it so
(KAFKA-3160). It is corrected before reading, and reproduced when writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.records import kernel
from penstock.records.batch import (
    COMPRESSION_MASK,
    TIMESTAMP_TYPE_MASK,
    Buffer,
    Compression,
    Record,
    TimestampType,
)
from penstock.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedCompression
from penstock.records.old_messages import OldMessage


@dataclass(frozen=True, slots=True)
class MessageSet:
    """A set without its wrappers."""

    magic: int
    codec: Compression
    """That of the wrappers; NONE if there are none."""

    timestamp_type: TimestampType
    records: list[Record]
    is_mixed: bool
    """Wrappers next to other messages, which no producer may send."""


def read_message_set(view: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> MessageSet:
    """All records of the set; every checksum, inside wrappers too, is checked."""
    messages = kernel.parse_messages(view)
    if not messages:
        raise InvalidBatch("a message set is empty")
    magic = messages[0].magic
    codec = Compression.NONE
    attributes = 0
    records: list[Record] = []
    for message in messages:
        if message.magic != magic:
            raise InvalidBatch(f"a message of format {message.magic} is in a set of format {magic}")
        attributes |= message.attributes
        if message.attributes & COMPRESSION_MASK:
            codec = _read_codec(message)
            inner = _unwrap(message, codec, limit_bytes)
            limit_bytes -= sum(len(record.key or b"") + len(record.value or b"") for record in inner)
            records += inner
        else:
            records.append(Record(message.offset, message.timestamp, message.key, message.value, ()))
    return MessageSet(
        magic=magic,
        codec=codec,
        timestamp_type=TimestampType((attributes & TIMESTAMP_TYPE_MASK) >> 3) if magic else TimestampType(0),
        records=records,
        is_mixed=codec is not Compression.NONE and len(messages) > 1,
    )


def write_message_set(
    records: Sequence[Record],
    *,
    magic: int,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """`records` as a set, in one wrapper if there is a codec; their headers are dropped."""
    if codec is Compression.NONE or not records:
        return kernel.write_messages(records, magic=magic, timestamp_type=timestamp_type)
    if codec is Compression.ZSTD:
        raise UnsupportedCompression("formats 0 and 1 do not support zstd")
    base_offset = records[0].offset if magic else 0
    inner = kernel.write_messages(
        records, magic=magic, base_offset=base_offset, timestamp_type=timestamp_type
    )
    value = compress(codec, inner, level)
    if magic == 0 and codec is Compression.LZ4:
        value = break_lz4_header(value)
    newest = max(record.timestamp for record in records)
    wrapper = Record(records[-1].offset, newest, None, bytes(value), ())
    return kernel.write_messages([wrapper], magic=magic, codec=codec, timestamp_type=timestamp_type)


def _read_codec(message: OldMessage) -> Compression:
    number = message.attributes & COMPRESSION_MASK
    if number > Compression.ZSTD:
        raise UnsupportedCompression(f"there is no codec {number}")
    codec = Compression(number)
    if codec is Compression.ZSTD:
        raise InvalidBatch(f"format {message.magic} does not support zstd")
    return codec


def _unwrap(wrapper: OldMessage, codec: Compression, limit_bytes: int) -> list[Record]:
    value: Buffer | None = wrapper.value
    if value is None:
        raise InvalidBatch("a compressed message has no value")
    if wrapper.magic == 0 and codec is Compression.LZ4:
        value = fix_lz4_header(value)
    inner = kernel.parse_messages(decompress(codec, value, limit_bytes=limit_bytes))
    if not inner:
        raise InvalidBatch("a compressed message holds no messages")
    for message in inner:
        if message.magic != wrapper.magic:
            raise InvalidBatch(f"a message of format {message.magic} is wrapped in format {wrapper.magic}")
        if message.attributes & COMPRESSION_MASK:
            raise InvalidBatch("a wrapped message is compressed itself")
    base_offset = _first_offset(wrapper, inner)
    if wrapper.magic and wrapper.attributes & TIMESTAMP_TYPE_MASK:
        append_time = wrapper.timestamp
        return [Record(base_offset + m.offset, append_time, m.key, m.value, ()) for m in inner]
    return [Record(base_offset + m.offset, m.timestamp, m.key, m.value, ()) for m in inner]


def _first_offset(wrapper: OldMessage, inner: list[OldMessage]) -> int:
    """What to add to the offsets inside a wrapper: nothing in v0, where they are absolute."""
    if wrapper.magic == 0 or wrapper.offset == 0:  # librdkafka sent wrappers with 0, whatever was inside
        return 0
    if wrapper.offset < inner[-1].offset:
        raise InvalidBatch(f"offset {inner[-1].offset} is in a wrapper of offset {wrapper.offset}")
    return wrapper.offset - inner[-1].offset


def fix_lz4_header(frame: Buffer) -> bytes:
    """The frame with the correct checksum."""
    end = _lz4_descriptor_end(frame)
    checksum = _xxh32_short(bytes(frame[4:end])) >> 8 & 0xFF
    return bytes(frame[:end]) + bytes((checksum,)) + bytes(frame[end + 1 :])


def break_lz4_header(frame: Buffer) -> bytes:
    """The frame with the checksum that clients of format v0 expect, which covers the magic number."""
    end = _lz4_descriptor_end(frame)
    checksum = _xxh32_short(bytes(frame[:end])) >> 8 & 0xFF
    return bytes(frame[:end]) + bytes((checksum,)) + bytes(frame[end + 1 :])


def _lz4_descriptor_end(frame: Buffer) -> int:
    """Where the checksum is: after the flags, the block size, and a content size if the flags say so."""
    if len(frame) < 7:
        raise CorruptBatch("an lz4 frame is cut off")
    end = 6 + (8 if frame[4] & 0x08 else 0)
    if len(frame) <= end:
        raise CorruptBatch("an lz4 frame is cut off")
    return end


_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def _xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, the most that a frame header has."""
    mask = 0xFFFF_FFFF
    value = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        value = (value + int.from_bytes(data[at : at + 4], "little") * _PRIME_3) & mask
        value = _rotate(value, 17) * _PRIME_4 & mask
    for byte in data[whole:]:
        value = (value + byte * _PRIME_5) & mask
        value = _rotate(value, 11) * _PRIME_1 & mask
    value = (value ^ value >> 15) * _PRIME_2 & mask
    value = (value ^ value >> 13) * _PRIME_3 & mask
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFF_FFFF
