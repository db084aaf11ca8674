"""Rows read side by side with numpy: each is a lane, a position in the bytes of its column.

Reading moves all lanes at once, so that what Python does is done once for a column and not for a row. Lanes never
judge: whatever is odd raises `Odd`, and the column is read row by row by the library that knows the reason. So what is
read here must be what the library reads; tests hold the two together.
"""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa

from penstock.spark.decoding.buffers import bytes_of

Numbers = Any  # numpy arrays

PADDING = 32  # lanes may look a few bytes beyond the end before it is noticed
VARINT_BITS = 64


class Odd(Exception):
    """Something to be read row by row."""


class Lanes:
    """Positions in the bytes, one for each row that is being read, and where the rows end."""

    def __init__(self, data: Numbers, at: Numbers, end: Numbers) -> None:
        self.data = data
        self.at = at
        self.end = end

    @classmethod
    def of(cls, column: pa.Array) -> Lanes:
        """One for each value of a binary column without nulls, at its beginning."""
        data, offsets = bytes_of(column)
        padded = numpy.concatenate([data[offsets[0] : offsets[-1]], numpy.zeros(PADDING, numpy.uint8)])
        begins = (offsets - offsets[0]).astype(numpy.int64)
        return cls(padded, begins[:-1].copy(), begins[1:])

    def __len__(self) -> int:
        return len(self.at)

    def some(self, index: Numbers) -> Lanes:
        return Lanes(self.data, self.at[index], self.end[index])

    def skip(self, sizes: Any) -> Numbers:
        """Move on by so many bytes; tells where they began."""
        begins = self.at.copy()
        self.at += sizes
        self.check()
        return begins

    def check(self) -> None:
        """No lane may have passed its end."""
        if (self.at > self.end).any():
            raise Odd

    def varints(self) -> Numbers:
        """An unsigned number of each lane, seven bits to a byte."""
        byte = self.data[self.at]
        self.at += 1
        value = (byte & 0x7F).astype(numpy.uint64)
        left = numpy.flatnonzero(byte >= 0x80)
        shift = 7
        while len(left):
            if shift >= VARINT_BITS:
                raise Odd
            byte = self.data[self.at[left]]
            self.at[left] += 1
            if shift == VARINT_BITS - 1 and (byte > 1).any():
                raise Odd  # more than 64 bits
            value[left] |= (byte & 0x7F).astype(numpy.uint64) << numpy.uint64(shift)
            left = left[byte >= 0x80]
            shift += 7
        self.check()
        return value


def from_zigzag(values: Numbers) -> Numbers:
    """Signed numbers of unsigned ones of the same width, in which the sign is the lowest bit."""
    signed = numpy.dtype(f"i{values.dtype.itemsize}")
    one = values.dtype.type(1)
    return (values >> one).view(signed) ^ -(values & one).view(signed)


def binary_of(data: Numbers, begins: Numbers, sizes: Numbers) -> pa.Array:
    """The bytes at these places, which rise and do not overlap, as a column.

    Arrow takes every second value of a column of the places and the gaps between them, which copies each at once: more
    than twice as fast as an index of every byte."""
    if not len(begins):
        return pa.nulls(0, pa.binary())
    edges = numpy.empty(2 * len(begins), numpy.int32)
    edges[0::2] = begins
    edges[1::2] = begins + sizes
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    with_gaps = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
    return with_gaps.take(pa.array(numpy.arange(0, len(edges), 2, dtype=numpy.int32)))
