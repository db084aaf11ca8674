"""The bytes of a binary column, for code that reads all rows at once."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa


def bytes_of(column: pa.Array) -> tuple[Any, Any]:
    """The bytes of a binary column without nulls, and where each value begins, with the end of the last."""
    _, offsets, data = column.buffers()
    begins = numpy.frombuffer(offsets, numpy.int32) if offsets is not None else numpy.zeros(1, numpy.int32)
    begins = begins[column.offset : column.offset + len(column) + 1]
    if len(begins) == 0:  # Arrow may leave the offsets of an empty column out
        begins = numpy.zeros(1, numpy.int32)
    return numpy.frombuffer(data if data is not None else b"", numpy.uint8), begins


def without_first(column: pa.Array, count: int) -> pa.Array:
    """The column without the first bytes of each value; no value is shorter. (Arrow's `binary_slice` fails on some
    columns, because it computes a negative size.)"""
    data, offsets = bytes_of(column)
    begins = offsets - offsets[0]
    kept = numpy.ones(int(begins[-1]), bool)
    for index in range(count):
        kept[begins[:-1] + index] = False
    shorter = data[offsets[0] : offsets[-1]][kept]
    begins = (begins - count * numpy.arange(len(begins))).astype(numpy.int32)
    buffers = [None, pa.py_buffer(begins), pa.py_buffer(shorter)]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)
