"""Protobuf's numbers: how each type is written, and what its numbers are as a column.

What a field's type cannot hold is cut off as Protobuf does it: an int32 is the low 32 bits of what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy
import pyarrow as pa

from penstock.spark.decoding.buffers import bytes_of
from penstock.spark.decoding.lanes import Numbers, Odd, binary_of, from_zigzag

VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5
FIXED_BYTES: Final = {FIXED32: 4, FIXED64: 8}
VARINT_BYTES_MAX = 10
NAMED_MAX = 4096  # numbers between the least and the largest of an enum that are looked up in a list


class Form(NamedTuple):
    """How a type is written, and how numbers that were read become a column."""

    wire: int
    column: Callable[[Numbers], pa.Array]

    @property
    def dtype(self) -> str:
        return "<u4" if self.wire == FIXED32 else "<u8"


def _of_32_bits(values: Numbers) -> Numbers:
    return values.astype(numpy.uint32)


def _decimals(values: Numbers) -> pa.Array:
    """Of 64 bits without a sign: the upper half of a decimal is zero."""
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
    """The names of numbers, or the numbers where an open enum has no name for them."""
    names = {value.number: value.name for value in reversed(enum.values)}
    first, last = min(names), max(names)
    listed = pa.array([names.get(number) for number in range(first, min(last, first + NAMED_MAX) + 1)])
    is_closed = enum.is_closed

    def column(values: Numbers) -> pa.Array:
        numbers = _of_32_bits(values).view(numpy.int32)
        places = numbers.astype(numpy.int64) - first
        if len(places) and places.min() >= 0 and places.max() < len(listed):
            told = listed.take(pa.array(places))
            if not told.null_count:
                return told
        if is_closed and not all(number in names for number in numpy.unique(numbers).tolist()):
            raise Odd  # such a value is no value of the field
        return pa.array([names.get(number) or str(number) for number in numbers.tolist()], pa.string())

    return Form(VARINT, column)


def unpacked(data: Numbers, begins: Numbers, sizes: Numbers, wire: int) -> tuple[Numbers, Numbers]:
    """The numbers that stand one behind another at these places, and how many there are at each."""
    flat, offsets = bytes_of(binary_of(data, begins, sizes))
    flat = flat[offsets[0] : offsets[-1]]
    if wire in FIXED_BYTES:
        size = FIXED_BYTES[wire]
        if (sizes % size).any():
            raise Odd
        return numpy.ascontiguousarray(flat).view(f"<u{size}"), sizes // size
    is_last = flat < 0x80
    if not is_last[offsets[1:][sizes > 0] - 1].all():
        raise Odd  # one goes on behind the end
    ends = numpy.flatnonzero(is_last)
    counted = numpy.concatenate([[0], numpy.cumsum(is_last)])
    starts = numpy.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    lengths = ends - starts + 1
    values = (flat[starts] & 0x7F).astype(numpy.uint64)
    for place in range(1, int(lengths.max(initial=0))):
        left = numpy.flatnonzero(lengths > place)
        byte = flat[starts[left] + place]
        if place >= VARINT_BYTES_MAX or (place == VARINT_BYTES_MAX - 1 and (byte > 1).any()):
            raise Odd  # more than 64 bits
        values[left] |= (byte & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * place)
    return values, numpy.diff(counted[offsets])
