"""Narrows the ranges to read by a query's filters on topic, partition, offset and timestamp. No I/O.

Filters that the ranges satisfy exactly are taken from Spark. Others narrow only as far as is certain, and Spark still
checks every row. Timestamps rise along a log only if brokers set them, so no range can end at a timestamp. But every
record before the first one with a timestamp or later is older.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.spark.offsets import ListOffsets
from penstock.spark.plan import Range

COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, values: value in values,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What the filters of one query leave to read."""

    places: tuple[Filter, ...] = field(default=())
    """On topic or partition: they keep or drop whole ranges."""
    first_offset: int = 0
    end_offset: int | None = None
    time_ms: int | None = None
    """Older records are not wanted."""

    @classmethod
    def of(cls, filters: Iterable[Filter], columns: Collection[str]) -> tuple[Narrowing, list[Filter]]:
        """Returns the filters that Spark has to apply itself, too. `columns` are those whose meaning is the source's
        own."""
        narrowing, left = cls(), []
        for each in filters:
            narrowed = narrowing._with(each) if _column(each) in columns else None
            if narrowed is not None:
                narrowing = narrowed
            if narrowed is None or not _is_exact(each):
                left.append(each)
        return narrowing, left

    def _with(self, given: Filter) -> Narrowing | None:
        """Narrowed by one more filter; None if the filter does not constrain ranges."""
        column = _column(given)
        if isinstance(given, IsNotNull):
            return self if column in NEVER_NULL else None
        if column in ("topic", "partition"):
            return replace(self, places=(*self.places, given)) if _is_answerable(given) else None
        if column == "offset":
            return self._with_offset(given)
        if column == "timestamp" and isinstance(given, EqualTo | GreaterThan | GreaterThanOrEqual):
            time_ms = _milliseconds(given.value)
            if time_ms is not None:
                return replace(self, time_ms=max(time_ms, self.time_ms or 0))
        return None

    def _with_offset(self, given: Filter) -> Narrowing | None:
        first, end = 0, None
        match given:
            case EqualTo(value=int(value)) | EqualNullSafe(value=int(value)):
                first, end = value, value + 1
            case GreaterThan(value=int(value)):
                first = value + 1
            case GreaterThanOrEqual(value=int(value)):
                first = value
            case LessThan(value=int(value)):
                end = value
            case LessThanOrEqual(value=int(value)):
                end = value + 1
            case In(value=values) if values and all(isinstance(value, int) for value in values):
                first, end = min(values), max(values) + 1
            case _:
                return None
        ends = [each for each in (self.end_offset, end) if each is not None]
        return replace(
            self, first_offset=max(self.first_offset, first), end_offset=min(ends) if ends else None
        )

    def narrow(self, ranges: Iterable[Range], list_offsets: ListOffsets) -> list[Range]:
        """The parts of the ranges that can contain a wanted row."""
        left = [
            each._replace(
                start=max(each.start, self.first_offset),
                end=each.end if self.end_offset is None else min(each.end, self.end_offset),
            )
            for each in ranges
            if all(_holds(one, getattr(each.partition, _column(one))) for one in self.places)
        ]
        left = [each for each in left if each.size > 0]
        if self.time_ms is None:
            return left
        found = list_offsets(dict.fromkeys((each.partition for each in left), self.time_ms))
        return [
            each._replace(start=max(each.start, found[each.partition]))
            for each in left
            if 0 <= found[each.partition] < each.end
        ]


def _column(given: Filter) -> str:
    """The name of the column; empty for a filter on a nested field."""
    if isinstance(given, Not):
        return _column(given.child)
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _is_exact(given: Filter) -> bool:
    """Whether the ranges contain no row that the filter rejects."""
    if _column(given) == "timestamp":
        return isinstance(given, IsNotNull)
    return not (_column(given) == "offset" and isinstance(given, In))


def _is_answerable(given: Filter) -> bool:
    if isinstance(given, Not):
        return _is_answerable(given.child)
    return isinstance(given, IsNull) or (
        type(given) in COMPARED and getattr(given, "value", None) is not None
    )


def _holds(given: Filter, value: Any) -> bool:
    if isinstance(given, Not):
        return not _holds(given.child, value)
    if isinstance(given, IsNull):
        return False
    return COMPARED[type(given)](value, given.value)  # type: ignore[attr-defined]  # all of these have a value


def _milliseconds(value: object) -> int | None:
    """Rounded down, because records of that millisecond may be wanted. None for a time without a zone, and for one
    before 1970, which brokers do not know: records without a timestamp count as of the millisecond before."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None or value < EPOCH:
        return None
    return (value - EPOCH) // datetime.timedelta(milliseconds=1)
