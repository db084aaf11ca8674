"""Columns of records in Arrow's memory layout, as `consuming.ColumnBuilder` returns them.

Numbers are little-endian int64. A bytes column is its data and one offset more than it has rows, each an int32.
Validity has one bit per row, lowest bit first, which is 0 for a null. Nothing here imports Arrow; `columns` makes
record batches of these buffers.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.records.batch import Buffer

OFFSET_MAX = 2**63 - 1

# How headers are returned: not at all, as lists of names and values, or as the bytes of the record.
NO_HEADERS, LISTED_HEADERS, RAW_HEADERS = 0, 1, 2


class NumberColumn(NamedTuple):
    data: Buffer
    validity: Buffer
    null_count: int


class BytesColumn(NamedTuple):
    offsets: Buffer
    data: Buffer
    validity: Buffer
    null_count: int


class Columns(NamedTuple):
    row_count: int
    offset: NumberColumn
    timestamp: NumberColumn
    """Microseconds since 1970; null if the record has no timestamp."""
    key: BytesColumn
    value: BytesColumn
    raw_headers: BytesColumn
    """With `RAW_HEADERS` only; null if the record has no headers."""
    header_count: int
    header_offsets: Buffer
    """With `LISTED_HEADERS` only: the first header of each row, as an index into the two columns below."""
    header_name: BytesColumn
    header_value: BytesColumn
    append_time_runs: tuple[tuple[int, int], ...] = ()
    """Ranges of rows, end exclusive, whose timestamp type is LogAppendTime; all other rows have CreateTime."""
