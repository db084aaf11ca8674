"""The base class of decoders: a column of bytes in, a column of one Spark type and the bad rows out.

Invariant: the returned column has as many rows as the input, exactly the Arrow type that Spark expects for
`data_type`, and null in every bad row. A record without a value (a tombstone) is null and not bad.

A decoder is created on the driver, when the schema of the query is fixed, and pickled to the tasks. Its fields are
what a task needs; everything derived from them (`cached_property`) is created in the task and never pickled.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import DataType, StructField

from penstock.client.errors import RegistryError
from penstock.spark.decoding.building import UNBUILDABLE, Build
from penstock.spark.internals import arrow_type_of

SMALL_ROWS = 64  # fewer are not halved: the overhead of reading a part at once equals some rows
FAILURES_MAX = 64  # failed parts, after which the rest of the batch is read row by row
REASON_CHARACTERS_MAX = (
    1000  # some libraries repeat the whole value, which is too long for a header or a log line
)


class Bad(NamedTuple):
    """A row that does not match its format and schema."""

    row: int
    reason: str
    error: str = "ValueError"
    """The class of the exception, for tools that sort dead letters by it."""


class Decoded(NamedTuple):
    values: pa.Array
    bad: list[Bad]


@dataclasses.dataclass(frozen=True)
class Decoder(ABC):
    """Decodes one column of keys or values."""

    data_type: DataType

    def field(self, name: str) -> StructField:
        """The column as Spark sees it. It is always nullable: a record may have no value."""
        return StructField(name, self.data_type, nullable=True)

    @cached_property
    def arrow_type(self) -> pa.DataType:
        return arrow_type_of(self.data_type)

    def decode(self, column: pa.Array) -> Decoded:
        """The column's values, and the rows that could not be read."""
        if column.null_count == 0:
            return self._decode_present(column)
        places = pa.array(range(len(column)), pa.int32()).filter(column.is_valid())
        values, bad = self._decode_present(column.drop_null())
        rows = places.to_pylist()
        return Decoded(
            spread(values, rows, len(column)), [Bad(rows[each.row], each.reason, each.error) for each in bad]
        )

    @abstractmethod
    def _decode_present(self, column: pa.Array) -> Decoded:
        """The same for a column without nulls."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def spread(values: pa.Array, rows: list[int], length: int) -> pa.Array:
    """A column of `length` rows with the values at the ascending `rows`, and null elsewhere."""
    indexes: list[int | None] = [None] * length
    for index, row in enumerate(rows):
        indexes[row] = index
    return values.take(pa.array(indexes, pa.int32()))


def read_rows(data: list[bytes], read: Callable[[bytes], Any]) -> tuple[list[Any], list[Bad]]:
    """The values that `read` returns; None and a reason for rows on which it raises."""
    try:
        return list(map(read, data)), []
    except RegistryError:
        raise
    except Exception:  # find the row below
        values, bad = [], []
    for row, each in enumerate(data):
        try:
            values.append(read(each))
        except (MemoryError, RegistryError):
            raise  # neither is the record's fault
        except Exception as error:  # libraries raise anything on malformed bytes
            values.append(None)
            bad.append(bad_by(row, error))
    return values, bad


def build_rows(values: list[Any], build: Build, bad: list[Bad]) -> Decoded:
    """The column of the values; a value that the column's type cannot hold is bad, too."""
    try:
        return Decoded(build(values), bad)
    except UNBUILDABLE:
        kept, more = list(values), list(bad)
    for row, value in enumerate(kept):
        try:
            build([value])
        except UNBUILDABLE as error:
            kept[row] = None
            more.append(bad_by(row, error))
    return Decoded(build(kept), sorted(more))


def by_halves(
    column: pa.Array,
    at_once: Callable[[pa.Array], pa.Array | None] | None,
    by_rows: Callable[[pa.Array], Decoded],
) -> Decoded:
    """Read as much as possible at once: a part that fails is halved until it is small, and then read row by row. So
    a bad record slows down its neighbours and not the batch. If most parts fail, this stops early. Without
    `at_once`, everything is read row by row."""
    if at_once is None or not len(column):
        return by_rows(column)
    failures_left = FAILURES_MAX

    def decode(part: pa.Array) -> Decoded:
        nonlocal failures_left
        if failures_left > 0:
            values = at_once(part)
            if values is not None:
                return Decoded(values, [])
            failures_left -= 1
        if failures_left <= 0 or len(part) <= SMALL_ROWS:
            return by_rows(part)
        middle = len(part) // 2
        first, second = decode(part.slice(0, middle)), decode(part.slice(middle))
        bad = [each._replace(row=each.row + middle) for each in second.bad]
        return Decoded(pa.concat_arrays([first.values, second.values]), first.bad + bad)

    return decode(column)


def all_bad(length: int, data_type: pa.DataType, reason: str, error: str) -> Decoded:
    """A column whose rows are all bad for one reason."""
    return Decoded(pa.nulls(length, data_type), [Bad(row, reason, error) for row in range(length)])


def bad_by(row: int, error: Exception) -> Bad:
    kind = type(error)
    reason = str(error) or kind.__name__
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Bad(row, reason[:REASON_CHARACTERS_MAX], name)
