"""Messages of formats v0 and v1 in plain Python: the reference for `_messages.pyx`.

    offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | timestamp i64, in v1 only |
    key: i32 and bytes | value: i32 and bytes

A size of -1 is a null. The CRC is CRC-32 (zlib's) and covers everything after itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error
from zlib import crc32

from penstock.records.batch import (
    LENGTH_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    Buffer,
    Record,
    TimestampType,
)
from penstock.records.errors import CorruptBatch, InvalidBatch, UnsupportedMagic
from penstock.records.old_messages import OldMessage

MESSAGE_BYTES_MIN = 14  # CRC, magic, attributes and two sizes: no message of either format is shorter
CRC_COVERS_AT = 4  # within the message, after offset and size

_LOG_HEAD = Struct(">qi")
_UINT32 = Struct(">I")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def parse_messages(view: Buffer) -> list[OldMessage]:
    """All messages of a buffer that must hold only whole messages; every CRC is checked."""
    messages = []
    position = 0
    while position < len(view):
        if len(view) - position < LENGTH_BYTES:
            raise CorruptBatch(f"a message at {position} is cut off")
        offset, size = _LOG_HEAD.unpack_from(view, position)
        start = position + LENGTH_BYTES
        if not MESSAGE_BYTES_MIN <= size <= len(view) - start:
            raise CorruptBatch(f"the message at {position} claims {size} of {len(view) - start} bytes")
        body = memoryview(view)[start : start + size]
        (stored_crc,) = _UINT32.unpack_from(body)
        crc = crc32(body[CRC_COVERS_AT:])
        if crc != stored_crc:
            raise CorruptBatch(f"the message at {position} has checksum {crc:#x}, it says {stored_crc:#x}")
        magic, attributes = body[4], body[5]
        if magic > 1:
            raise UnsupportedMagic(f"format {magic} at {position} is no message of format 0 or 1")
        try:
            messages.append(_parse_body(offset, magic, attributes, body))
        except (error, InvalidBatch) as exc:
            raise InvalidBatch(f"the message at {position} is malformed") from exc
        position = start + size
    return messages


def _parse_body(offset: int, magic: int, attributes: int, body: memoryview) -> OldMessage:
    timestamp = NO_TIMESTAMP
    at = 6
    if magic == 1:
        (timestamp,) = _INT64.unpack_from(body, at)
        at += 8
    key, at = _read_bytes(body, at)
    value, at = _read_bytes(body, at)
    if at != len(body):
        raise InvalidBatch("it is longer than its fields")
    return OldMessage(offset, magic, attributes, timestamp, key, value)


def _read_bytes(body: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _INT32.unpack_from(body, at)
    at += 4
    if size < 0:
        return None, at
    if size > len(body) - at:
        raise InvalidBatch("a field leaves its message")
    return bytes(body[at : at + size]), at + size


def write_messages(
    records: Iterable[Record],
    *,
    magic: int,
    base_offset: int = 0,
    codec: int = 0,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """`records` as messages with offsets from `base_offset`; these formats have no headers."""
    out = bytearray()
    attributes = codec | (TIMESTAMP_TYPE_MASK if magic == 1 and timestamp_type else 0)
    for offset, timestamp, key, value, _ in records:
        body = bytearray((magic, attributes))
        if magic == 1:
            body += _INT64.pack(timestamp)
        _append_bytes(body, key)
        _append_bytes(body, value)
        out += _LOG_HEAD.pack(offset - base_offset, len(body) + CRC_COVERS_AT)
        out += _UINT32.pack(crc32(body))
        out += body
    return out


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out += _INT32.pack(-1)
    else:
        out += _INT32.pack(len(data))
        out += data
