"""Records side by side: what a chain of operators works on in a task that reads.

Keys and values are Arrow columns as long as nothing but kernels has touched them, and lists of Python's objects from
the first function of a user on. `rows` says of which row of the source's batch each record came, so that its offset is
looked up only where it is needed, and so that records can be put in order again after a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy
import pyarrow

from penstock.streams.nouns import Headers

Column: TypeAlias = "pyarrow.Array | list[Any]"
Rows: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.int64]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Records with the same origin; all columns have the same length."""

    keys: Column
    values: Column
    rows: Rows
    times: Rows
    """Event time in ms."""
    headers: list[Headers] | None
    """None where no record has any."""

    def __len__(self) -> int:
        return len(self.rows)

    def with_keys(self, keys: Column) -> Columns:
        return replace(self, keys=keys)

    def with_values(self, values: Column) -> Columns:
        return replace(self, values=values)

    def take(self, places: Rows, *, keys: Column | None = None, values: Column | None = None) -> Columns:
        """The records at these places, in this order; with other keys or values where they are given."""
        headers = None if self.headers is None else [self.headers[place] for place in places.tolist()]
        return Columns(
            _take(self.keys, places) if keys is None else keys,
            _take(self.values, places) if values is None else values,
            self.rows[places],
            self.times[places],
            headers,
        )

    def header_list(self) -> list[Headers]:
        return [()] * len(self) if self.headers is None else self.headers


def as_list(column: Column) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def joined(parts: Sequence[Columns]) -> Columns:
    """Several with one origin as one, in order of the rows they came from."""
    if len(parts) == 1:
        return parts[0]
    rows = numpy.concatenate([part.rows for part in parts])
    has_headers = any(part.headers is not None for part in parts)
    whole = Columns(
        [key for part in parts for key in as_list(part.keys)],
        [value for part in parts for value in as_list(part.values)],
        rows,
        numpy.concatenate([part.times for part in parts]),
        [headers for part in parts for headers in part.header_list()] if has_headers else None,
    )
    return whole.take(numpy.argsort(rows, kind="stable"))


def _take(column: Column, places: Rows) -> Column:
    if isinstance(column, list):
        return [column[place] for place in places.tolist()]
    return column.take(pyarrow.array(places))
