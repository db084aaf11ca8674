"""Filters narrow ranges, and no row that a filter wants is left out."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
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
    StringStartsWith,
)

from penstock.client.cluster import TopicPartition
from penstock.spark.columns import FIELDS
from penstock.spark.offsets import Offsets
from penstock.spark.plan import Range
from penstock.spark.pushdown import Narrowing

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = [Range(A0, 0, 10), Range(A1, 5, 20), Range(B0, 0, 30)]

COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, values: value in values,
}


def no_times(wanted: Mapping[TopicPartition, int]) -> Offsets:
    raise AssertionError("no time was asked for")


def narrowed(*filters: Filter) -> tuple[list[Range], list[Filter]]:
    narrowing, left = Narrowing.of(filters, FIELDS.names)
    return narrowing.narrow(RANGES, no_times), left


def comparison(column: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    plain = st.one_of(
        *(st.builds(kind, st.just((column,)), value) for kind in COMPARED if kind is not In),
        st.builds(In, st.just((column,)), st.lists(value, min_size=1).map(tuple)),
    )
    return plain | plain.map(Not)


def holds(given: Filter, row: dict[str, Any]) -> bool:
    if isinstance(given, Not):
        return not holds(given.child, row)
    return COMPARED[type(given)](row[given.attribute[0]], given.value)  # type: ignore[attr-defined]


@given(
    st.lists(
        st.one_of(
            comparison("offset", st.integers(-5, 35)),
            comparison("partition", st.integers(0, 2)),
            comparison("topic", st.sampled_from(["a", "b", "c"])),
        ),
        max_size=4,
    )
)
def test_narrowed_ranges_and_sparks_filters_give_exactly_the_wanted_rows(filters: list[Filter]) -> None:
    def rows(ranges: list[Range]) -> list[dict[str, Any]]:
        return [
            {"topic": each.partition.topic, "partition": each.partition.partition, "offset": offset}
            for each in ranges
            for offset in range(each.start, each.end)
        ]

    ranges, left = narrowed(*filters)

    assert [row for row in rows(ranges) if all(holds(each, row) for each in left)] == [
        row for row in rows(RANGES) if all(holds(each, row) for each in filters)
    ]


def test_filters_on_offset_topic_and_partition_are_taken_from_spark() -> None:
    filters = [
        EqualTo(("topic",), "a"),
        In(("partition",), (1, 2)),
        GreaterThan(("offset",), 6),
        LessThan(("offset",), 9),
    ]

    assert narrowed(*filters) == ([Range(A1, 7, 9)], [])


def test_topic_prefixes_and_columns_that_are_never_null() -> None:
    assert narrowed(StringStartsWith(("topic",), "b"), IsNotNull(("offset",))) == ([Range(B0, 0, 30)], [])
    assert narrowed(IsNull(("partition",))) == ([], [])


def test_filters_that_do_not_constrain_ranges_are_left_to_spark() -> None:
    filters = [
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        EqualTo(("value", "offset"), 3),
        EqualTo(("topic",), None),
    ]

    assert narrowed(*filters) == (RANGES, filters)


def test_filters_on_other_columns_are_left_to_spark() -> None:
    filters: list[Filter] = [EqualTo(("offset",), 3)]

    assert Narrowing.of(filters, ()) == (Narrowing(), filters)


def test_records_without_a_timestamp_match_a_time_before_1970() -> None:
    filters: list[Filter] = [
        GreaterThan(("timestamp",), datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC)),
        EqualTo(("timestamp",), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC)),
    ]

    assert narrowed(*filters) == (RANGES, filters)


def test_a_timestamp_moves_the_start_and_spark_still_checks_rows() -> None:
    asked: dict[TopicPartition, int] = {}

    def list_offsets(wanted: Mapping[TopicPartition, int]) -> Offsets:
        asked.update(wanted)
        return {A0: 4, A1: -1, B0: 99}

    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    filters: list[Filter] = [GreaterThanOrEqual(("timestamp",), at), LessThan(("timestamp",), at)]
    narrowing, left = Narrowing.of(filters, FIELDS.names)

    assert narrowing.narrow(RANGES, list_offsets) == [Range(A0, 4, 10)]
    assert left == filters
    assert set(asked.values()) == {int(at.timestamp() * 1000)}


def test_a_time_without_a_zone_does_not_narrow() -> None:
    filters: list[Filter] = [GreaterThan(("timestamp",), datetime.datetime(2026, 1, 1))]

    assert narrowed(*filters) == (RANGES, filters)
