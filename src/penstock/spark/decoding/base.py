"""What every decoder is: a column of bytes in, a column of one Spark type and the bad rows out.

Invariant: the column that comes back is as long as the one that went in, in exactly the Arrow type that Spark expects
of `data_type`, and null in every bad row. A record without a value (a tombstone) is null and not bad.

A decoder is made on the driver, when the schema of the query is fixed, and pickled to the tasks: its fields are what a
task needs to know, and what a task makes of them is made there (`cached_property`) and never travels.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField

from penstock.client.errors import RegistryError
from penstock.spark.decoding.building import UNBUILDABLE, Build

SMALL_ROWS = 64  # fewer are not halved: what is done at once for a part costs as much as some rows
FAILURES_MAX = 64  # parts with something odd in them; a batch with more is not worth it
REASON_CHARACTERS_MAX = (
    1000  # libraries like to repeat the whole value, and a header or a log line is no place for it
)


class Bad(NamedTuple):
    """A row that is not what its format and schema say."""

    row: int
    reason: str
    error: str = "ValueError"
    """The class of the exception, for those who sort dead letters by it."""


class Decoded(NamedTuple):
    values: pa.Array
    bad: list[Bad]


@dataclasses.dataclass(frozen=True)
class Decoder(ABC):
    """Reads one column of keys or values."""

    data_type: DataType

    def field(self, name: str) -> StructField:
        """The column as Spark sees it. It may always be null: a record may have no value."""
        return StructField(name, self.data_type, nullable=True)

    @cached_property
    def arrow_type(self) -> pa.DataType:
        return arrow_type_of(self.data_type)

    def decode(self, column: pa.Array) -> Decoded:
        """The column's values, and what could not be read."""
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


def arrow_type_of(data_type: DataType) -> pa.DataType:
    """The Arrow type in which Spark wants a column of this type from a data source."""
    return to_arrow_type(data_type, timezone="UTC")


def spread(values: pa.Array, rows: list[int], length: int) -> pa.Array:
    """A column of `length` rows that has the values at `rows`, which rise, and null elsewhere."""
    indexes: list[int | None] = [None] * length
    for index, row in enumerate(rows):
        indexes[row] = index
    return values.take(pa.array(indexes, pa.int32()))


def read_rows(data: list[bytes], read: Callable[[bytes], Any]) -> tuple[list[Any], list[Bad]]:
    """What `read` makes of each; None and a reason where it raises."""
    try:
        return list(map(read, data)), []
    except RegistryError:
        raise
    except Exception:  # the row is found below
        values, bad = [], []
    for row, each in enumerate(data):
        try:
            values.append(read(each))
        except (MemoryError, RegistryError):
            raise  # neither is the record's fault
        except Exception as error:  # libraries raise whatever comes to them on bytes that are no value
            values.append(None)
            bad.append(bad_by(row, error))
    return values, bad


def build_rows(values: list[Any], build: Build, bad: list[Bad]) -> Decoded:
    """The column of the values; a value that the column's type cannot hold is bad too."""
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
    column: pa.Array, at_once: Callable[[pa.Array], pa.Array | None], by_rows: Callable[[pa.Array], Decoded]
) -> Decoded:
    """Reads as much as can be read at once: a part with something odd in it is halved until it is small, and then read
    row by row. So a bad record costs its neighbours, and not the batch; where all is odd, it is soon given up."""
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
    words = str(error) or kind.__name__
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Bad(row, words[:REASON_CHARACTERS_MAX], name)
