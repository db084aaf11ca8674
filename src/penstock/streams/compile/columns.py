"""Columns of records: what a chain of operators works on in a reading task.

Keys and values are Arrow columns while only kernels have touched them, and lists of Python objects after the first
user function. `rows` maps each record to its row in the source batch: its offset is looked up only if needed, and the
order of records can be restored after a split (`outputs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy
import pyarrow

from penstock.streams.nouns import Headers

Column: TypeAlias = "pyarrow.Array | list[Any]"
Rows: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.int64]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Records of one source batch; all columns have the same length."""

    keys: Column
    values: Column
    rows: Rows
    times: Rows
    """Event time in ms."""
    headers: list[Headers] | None
    """None if no record has headers."""
    steps: tuple[Rows, ...] = ()
    """The order among the records of one row, where it matters: see `chain`."""

    def __len__(self) -> int:
        return len(self.rows)

    def with_keys(self, keys: Column) -> Columns:
        return replace(self, keys=keys)

    def with_values(self, values: Column) -> Columns:
        return replace(self, values=values)

    def take(self, places: Rows, *, keys: Column | None = None, values: Column | None = None) -> Columns:
        """The records at these positions, in this order, optionally with other keys or values."""
        headers = None if self.headers is None else [self.headers[place] for place in places.tolist()]
        return Columns(
            _take(self.keys, places) if keys is None else keys,
            _take(self.values, places) if values is None else values,
            self.rows[places],
            self.times[places],
            headers,
            tuple(step[places] for step in self.steps),
        )

    def header_list(self) -> list[Headers]:
        return [()] * len(self) if self.headers is None else self.headers


def as_list(column: Column) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def _take(column: Column, places: Rows) -> Column:
    if isinstance(column, list):
        return [column[place] for place in places.tolist()]
    return column.take(pyarrow.array(places))
