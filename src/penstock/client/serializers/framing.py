"""The header of a value with a schema in a registry: a zero byte, and the schema's id in four bytes.

This is Confluent's wire format. In Protobuf the header continues with the path of the message in its schema: indexes of
nested messages as zigzag varints after their count; the first message of a file, which is the usual one, is the single
byte 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

HEAD_BYTES = 5
INDEXES_MAX = 64  # nested messages are never this deep; more is corrupt, and must not cost memory

_HEAD = struct.Struct(">bI")


def head(schema_id: int) -> bytes:
    return _HEAD.pack(0, schema_id)


def read_head(data: bytes) -> int:
    """The id of the schema; ValueError for other bytes."""
    if len(data) < HEAD_BYTES:
        raise ValueError(f"{len(data)} bytes are too few for a schema id")
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != 0:
        raise ValueError(f"the first byte is {data[0]}, not the 0 before a schema id")
    return int(schema_id)


def write_indexes(path: Sequence[int]) -> bytes:
    if list(path) == [0]:
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def read_indexes(data: bytes, position: int) -> tuple[list[int], int]:
    """The path of the message, and the position where the message begins."""
    count, position = _read_zigzag(data, position)
    if count == 0:
        return [0], position
    if not 0 < count <= INDEXES_MAX:
        raise ValueError(f"a message path with {count} indexes is invalid")
    path = []
    for _ in range(count):
        index, position = _read_zigzag(data, position)
        path.append(index)
    return path, position


def _zigzag(number: int) -> bytes:
    left = number << 1
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise ValueError("the list of message indexes does not end")
