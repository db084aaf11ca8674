"""Protobuf's numbers: the wire form of each type, and its numbers as a column.

Values that a field's type cannot hold are truncated as in Protobuf: an int32 is the low 32 bits of the wire value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy
import pyarrow as pa

from penstock.spark.decoding.buffers import bytes_of
from penstock.spark.decoding.lanes import NotColumnar, Numbers, binary_of, from_zigzag

VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5
FIXED_BYTES: Final = {FIXED32: 4, FIXED64: 8}
VARINT_BYTES_MAX = 10
NAMED_MAX = 4096  # the largest span of enum numbers that are looked up in a list


class Form(NamedTuple):
    """The wire type, and how numbers become a column."""

    wire: int
    column: Callable[[Numbers], pa.Array]

    @property
    def dtype(self) -> str:
        return "<u4" if self.wire == FIXED32 else "<u8"


def _of_32_bits(values: Numbers) -> Numbers:
    return values.astype(numpy.uint32)


def _decimals(values: Numbers) -> pa.Array:
    """Unsigned 64 bits: the upper half of a decimal is zero."""
    wide = numpy.zeros((len(values), 2), numpy.uint64)
    wide[:, 0] = values
    return pa.Array.from_buffers(pa.decimal128(20, 0), len(values), [None, pa.py_buffer(wide)])


FORMS: Final[dict[int, Form]] = {
    1: Form(FIXED64, lambda values: pa.array(values.view("<f8"))),  # double
    2: Form(FIXED32, lambda values: pa.array(values.view("<f4"))),  # float
    3: Form(VARINT, lambda values: pa.array(values.view(numpy.int64))),  # int64
    4: Form(VARINT, _decimals),  # uint64
    5: Form(VARINT, lambda values: pa.array(_of_32_bits(values).view(numpy.int32))),  # int32
    6: Form(FIXED64, _decimals),  # fixed64
    7: Form(FIXED32, lambda values: pa.array(values.astype(numpy.int64))),  # fixed32
    8: Form(VARINT, lambda values: pa.array(values != 0)),  # bool
    13: Form(VARINT, lambda values: pa.array(_of_32_bits(values).astype(numpy.int64))),  # uint32
    15: Form(FIXED32, lambda values: pa.array(values.view("<i4"))),  # sfixed32
    16: Form(FIXED64, lambda values: pa.array(values.view("<i8"))),  # sfixed64
    17: Form(VARINT, lambda values: pa.array(from_zigzag(_of_32_bits(values)))),  # sint32
    18: Form(VARINT, lambda values: pa.array(from_zigzag(values))),  # sint64
}


def enum_form(enum: Any) -> Form:
    """The names of numbers, or the numbers if an open enum has no name for them."""
    names = {value.number: value.name for value in reversed(enum.values)}
    first, last = min(names), max(names)
    listed = pa.array([names.get(number) for number in range(first, min(last, first + NAMED_MAX) + 1)])
    is_closed = enum.is_closed

    def column(values: Numbers) -> pa.Array:
        numbers = _of_32_bits(values).view(numpy.int32)
        places = numbers.astype(numpy.int64) - first
        if len(places) and places.min() >= 0 and places.max() < len(listed):
            found = listed.take(pa.array(places))
            if not found.null_count:
                return found
        if is_closed and not all(number in names for number in numpy.unique(numbers).tolist()):
            raise NotColumnar  # a closed enum ignores unknown values
        return pa.array([names.get(number) or str(number) for number in numbers.tolist()], pa.string())

    return Form(VARINT, column)


def unpacked(data: Numbers, begins: Numbers, sizes: Numbers, wire: int) -> tuple[Numbers, Numbers]:
    """The packed numbers at these positions, and how many each position has."""
    flat, offsets = bytes_of(binary_of(data, begins, sizes))
    flat = flat[offsets[0] : offsets[-1]]
    if wire in FIXED_BYTES:
        size = FIXED_BYTES[wire]
        if (sizes % size).any():
            raise NotColumnar
        return numpy.ascontiguousarray(flat).view(f"<u{size}"), sizes // size
    is_last = flat < 0x80
    if not is_last[offsets[1:][sizes > 0] - 1].all():
        raise NotColumnar  # a number continues beyond the end
    ends = numpy.flatnonzero(is_last)
    counted = numpy.concatenate([[0], numpy.cumsum(is_last)])
    starts = numpy.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    lengths = ends - starts + 1
    values = (flat[starts] & 0x7F).astype(numpy.uint64)
    for place in range(1, int(lengths.max(initial=0))):
        left = numpy.flatnonzero(lengths > place)
        byte = flat[starts[left] + place]
        if place >= VARINT_BYTES_MAX or (place == VARINT_BYTES_MAX - 1 and (byte > 1).any()):
            raise NotColumnar  # more than 64 bits
        values[left] |= (byte & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * place)
    return values, numpy.diff(counted[offsets])
