"""Shared by the interpreter and compiled codecs: unsigned varints, and when records become a part of their own.

An unsigned varint has seven bits a byte, low bits first; the high bit says that another byte follows. Kafka uses them
for compact lengths (stored plus one, zero means null), counts and tags, all at most 32 bits wide.
"""

from __future__ import annotations

from typing import Final

from penstock.protocol.errors import MalformedMessage, UnencodableValue
from penstock.protocol.types import Buffer
from penstock.runtime.network import Part

VARINT_BYTES_MAX: Final = 5  # 32 bits in groups of seven
# Of one struct; Kafka defines ten at most, and a peer with millions is an attack.
TAGGED_FIELDS_MAX: Final = 127

# Records in memory of at least this size become a part of their own; below, copying them is cheaper than one more
# buffer for the socket to gather (bench/micro/protocol.py).
SPLICE_BYTES: Final = 16 * 1024


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """The varint at `position`, and the position after it; IndexError if the buffer ends too early."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:  # the length of a small batch: bench "one-record latency"
        return first & 0x7F | second << 7, position + 2
    value = shift = 0
    for count in range(VARINT_BYTES_MAX):
        byte = data[position + count]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, position + count + 1
        shift += 7
    raise MalformedMessage(f"the varint at position {position} does not fit in 32 bits")


def read_tag_count(data: memoryview, position: int) -> tuple[int, int]:
    """The number of fields in a tagged section, and the position of the first."""
    count, position = read_varint(data, position)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"{count} tagged fields at position {position} are too many")
    return count, position


def skip_tagged(data: memoryview, position: int) -> int:
    """The position after a tagged section without known fields; IndexError if the buffer ends in it."""
    count, position = read_tag_count(data, position)
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        if size > len(data) - position:
            raise MalformedMessage(f"a tagged field of {size} bytes does not fit at position {position}")
        position += size
    return position


def varint(value: int) -> bytes:
    if not 0 <= value <= 0xFFFF_FFFF:
        raise UnencodableValue(f"{value} does not fit in an unsigned varint of 32 bits")
    if 0x80 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# Nearly all lengths are below 128: a table is six times faster than making the byte (bench/micro/protocol.py).
ONE_BYTE_VARINTS: Final = [varint(value) for value in range(128)]


def join_parts(parts: list[Part]) -> bytes:
    """All parts joined; UnencodableValue if one of them is not in memory."""
    buffers = [part for part in parts if isinstance(part, Buffer)]
    if len(buffers) < len(parts):
        raise UnencodableValue("records that are not in memory can only be encoded to parts")
    return b"".join(buffers)
