"""Reads all rows side by side with numpy: each row is a lane, a position in the bytes of its column.

Reading advances all lanes at once, so that Python code runs once per column and not per row. Lanes never judge bad
data: anything unusual raises `NotColumnar`, and the library, which knows the reason, reads the column row by row. So
lanes must read exactly what the library reads; tests compare the two.
"""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa

from penstock.spark.decoding.buffers import bytes_of

Numbers = Any  # numpy arrays

PADDING = 32  # lanes may read a few bytes beyond the end before the check
VARINT_BITS = 64


class NotColumnar(Exception):
    """The column has to be read row by row."""


class Lanes:
    """Positions in the bytes, one per row, and where the rows end."""

    def __init__(self, data: Numbers, at: Numbers, end: Numbers) -> None:
        self.data = data
        self.at = at
        self.end = end

    @classmethod
    def of(cls, column: pa.Array) -> Lanes:
        """One lane per value of a binary column without nulls, at its start."""
        data, offsets = bytes_of(column)
        padded = numpy.concatenate([data[offsets[0] : offsets[-1]], numpy.zeros(PADDING, numpy.uint8)])
        begins = (offsets - offsets[0]).astype(numpy.int64)
        return cls(padded, begins[:-1].copy(), begins[1:])

    def __len__(self) -> int:
        return len(self.at)

    def some(self, index: Numbers) -> Lanes:
        return Lanes(self.data, self.at[index], self.end[index])

    def skip(self, sizes: Any) -> Numbers:
        """Advance by `sizes` bytes; returns the positions before."""
        begins = self.at.copy()
        self.at += sizes
        self.check()
        return begins

    def check(self) -> None:
        """Raise `NotColumnar` if a lane has passed its end."""
        if (self.at > self.end).any():
            raise NotColumnar

    def varints(self) -> Numbers:
        """An unsigned varint of each lane."""
        byte = self.data[self.at]
        self.at += 1
        value = (byte & 0x7F).astype(numpy.uint64)
        left = numpy.flatnonzero(byte >= 0x80)
        shift = 7
        while len(left):
            if shift >= VARINT_BITS:
                raise NotColumnar
            byte = self.data[self.at[left]]
            self.at[left] += 1
            if shift == VARINT_BITS - 1 and (byte > 1).any():
                raise NotColumnar  # more than 64 bits
            value[left] |= (byte & 0x7F).astype(numpy.uint64) << numpy.uint64(shift)
            left = left[byte >= 0x80]
            shift += 7
        self.check()
        return value


def from_zigzag(values: Numbers) -> Numbers:
    """Decode zigzag: signed numbers from unsigned ones of the same width."""
    signed = numpy.dtype(f"i{values.dtype.itemsize}")
    one = values.dtype.type(1)
    return (values >> one).view(signed) ^ -(values & one).view(signed)


def binary_of(data: Numbers, begins: Numbers, sizes: Numbers) -> pa.Array:
    """The bytes at these ascending, disjoint positions, as a column.

    Arrow takes every second value of a column of the positions and the gaps between them, which copies each value at
    once: more than twice as fast as an index of every byte.
    """
    if not len(begins):
        return pa.nulls(0, pa.binary())
    edges = numpy.empty(2 * len(begins), numpy.int32)
    edges[0::2] = begins
    edges[1::2] = begins + sizes
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    with_gaps = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
    return with_gaps.take(pa.array(numpy.arange(0, len(edges), 2, dtype=numpy.int32)))
