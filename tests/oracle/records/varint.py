"""Variable-length integers of records: zig-zag, seven bits a byte, low bits first."""

from __future__ import annotations

from penstock.records.batch import Buffer
from penstock.records.errors import InvalidBatch


def read_varint(view: Buffer, position: int, end: int) -> tuple[int, int]:
    """A 32-bit value and the position after it; never reads at or past `end`."""
    return _read(view, position, end, shift_max=28)


def read_varlong(view: Buffer, position: int, end: int) -> tuple[int, int]:
    """A 64-bit value and the position after it; never reads at or past `end`."""
    return _read(view, position, end, shift_max=63)


def _read(view: Buffer, position: int, end: int, *, shift_max: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, shift_max + 1, 7):
        if position >= end:
            raise InvalidBatch("a number in a record is cut off")
        byte = view[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Bits above the type's width are dropped, as in Java.
            raw &= 0xFFFF_FFFF if shift_max == 28 else 0xFFFF_FFFF_FFFF_FFFF
            return (raw >> 1) ^ -(raw & 1), position
    raise InvalidBatch("a number in a record is too long")


def append_varint(out: bytearray, value: int) -> None:
    """Works for both widths; the caller knows that `value` fits."""
    raw = (value << 1) ^ (value >> 63)
    while raw >= 0x80:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)


def wrap_int64(value: int) -> int:
    """The result of 64-bit arithmetic, which only hostile numbers overflow."""
    return (value + 2**63) % 2**64 - 2**63
