"""The columns of a table that a producer sends, as plain buffers in Arrow's memory layout.

`RowAppender` reads them in C. `iterate_rows` reads them in Python, one row at a time, for producers with interceptors
or a custom partitioner. Nothing here imports Arrow. The creator of `Rows` guarantees that offsets stay inside the
buffers: no reader checks them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from penstock.records.batch import Buffer

Header = tuple[str | None, bytes | None]

_INT32 = Struct("<i")
_INT64 = Struct("<q")


class NumberRows(NamedTuple):
    """A column of integers; the field of `Rows` says how wide they are."""

    data: Buffer
    validity: Buffer | None
    first: int
    """Index of the column's first row in the buffers."""


class BytesRows(NamedTuple):
    offsets: Buffer
    data: Buffer
    validity: Buffer | None
    first: int
    is_large: bool
    """Whether offsets have 64 bits instead of 32."""


class HeaderRows(NamedTuple):
    """A column of lists; offsets are indexes of pairs. Names are UTF-8."""

    offsets: Buffer
    validity: Buffer | None
    first: int
    names: BytesRows
    values: BytesRows


class Rows(NamedTuple):
    """The columns of one record batch; None for a column that the table does not have."""

    row_count: int
    value: BytesRows | None
    key: BytesRows | None = None
    headers: HeaderRows | None = None
    topic: NumberRows | None = None
    """int32: an index into the list of topics. Without this column all rows go to the first topic."""
    partition: NumberRows | None = None
    """int32"""
    timestamp: NumberRows | None = None
    """int64, in a unit of which `timestamps_per_ms` make a millisecond."""
    timestamps_per_ms: int = 1


class Row(NamedTuple):
    """One row; None for nulls and for missing columns."""

    topic: int | None
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None
    partition: int | None
    timestamp_ms: int | None


class Fault(IntEnum):
    """Why a row cannot be sent. `_rows.pyx` returns these numbers."""

    NO_TOPIC = 1
    NO_SUCH_PARTITION = 2
    TOO_EARLY = 3
    NAMELESS_HEADER = 4
    TOO_LARGE = 5


def iterate_rows(rows: Rows) -> Iterator[Row]:
    """All rows as Python objects."""
    return (_row_at(rows, row) for row in range(rows.row_count))


def _row_at(rows: Rows, row: int) -> Row:
    timestamp = _number_at(rows.timestamp, row, _INT64)
    return Row(
        topic=_number_at(rows.topic, row, _INT32),
        key=None if rows.key is None else _bytes_at(rows.key, row),
        value=None if rows.value is None else _bytes_at(rows.value, row),
        headers=None if rows.headers is None else _headers_at(rows.headers, row),
        partition=_number_at(rows.partition, row, _INT32),
        timestamp_ms=None if timestamp is None else timestamp // rows.timestamps_per_ms,
    )


def _headers_at(column: HeaderRows, row: int) -> list[Header] | None:
    at = column.first + row
    if not _is_valid(column.validity, at):
        return None
    headers: list[Header] = []
    for index in range(*_bounds(column.offsets, at, _INT32)):
        name = _bytes_at(column.names, index)
        headers.append((None if name is None else name.decode(), _bytes_at(column.values, index)))
    return headers


def _number_at(column: NumberRows | None, row: int, layout: Struct) -> int | None:
    if column is None or not _is_valid(column.validity, column.first + row):
        return None
    number: int = layout.unpack_from(column.data, (column.first + row) * layout.size)[0]
    return number


def _bytes_at(column: BytesRows, row: int) -> bytes | None:
    at = column.first + row
    if not _is_valid(column.validity, at):
        return None
    start, end = _bounds(column.offsets, at, _INT64 if column.is_large else _INT32)
    return bytes(memoryview(column.data)[start:end])


def _bounds(offsets: Buffer, at: int, layout: Struct) -> tuple[int, int]:
    """Start and end of the element at index `at`."""
    (start,) = layout.unpack_from(offsets, at * layout.size)
    (end,) = layout.unpack_from(offsets, (at + 1) * layout.size)
    return start, end


def _is_valid(validity: Buffer | None, at: int) -> bool:
    return validity is None or bool(memoryview(validity)[at >> 3] >> (at & 7) & 1)
