"""Output is in the order of the records that caused it, wherever branches split and merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder, Stream
from penstock.testing import TopologyTest

Build = Callable[[Stream[str, int]], None]


def meant(app: Builder, values: list[int], key: Callable[[int], str] = lambda value: "a") -> list[Any]:
    with TopologyTest(app) as test:
        for value in values:
            test.input("in").send(value, key=key(value), timestamp_ms=1000 + value)
        return list(test.output("out").read_values())


def found(
    app: Builder, values: list[int], key: Callable[[int], str] = lambda value: "a", *, caches: bool = True
) -> list[Any]:
    stages = Stages(app.topology, partitions=1, caches=caches)
    for value in values:
        stages.send("in", Written(key(value).encode(), value.to_bytes(8, "big"), 1000 + value))
    stages.run()
    return [int.from_bytes(record.value or b"", "big") for record in stages.written("out")]


def branches_that_are_merged(numbers: Stream[str, int]) -> None:
    even, odd = numbers.split(lambda value: value % 2 == 0)
    even.map_values(lambda value: value, value=int).merge(odd).to("out")


def branches_that_write_one_topic(numbers: Stream[str, int]) -> None:
    even, odd = numbers.split(lambda value: value % 2 == 0)
    even.to("out")
    odd.to("out")


def branches_whose_topic_is_a_function(numbers: Stream[str, int]) -> None:
    even, odd = numbers.split(lambda value: value % 2 == 0)
    even.to(lambda value: "out")
    odd.to("out")


def branches_that_go_through_an_internal_topic(numbers: Stream[str, int]) -> None:
    even, odd = numbers.split(lambda value: value % 2 == 0)
    even.merge(odd).repartition(name="again").to("out")


def both_ways_of_each_record(numbers: Stream[str, int]) -> None:
    numbers.map_values(lambda value: value + 100, value=int).merge(numbers).to("out")


def ways_that_part_behind_a_flat_map(numbers: Stream[str, int]) -> None:
    items = numbers.flat_map(lambda value: [10 * value, 10 * value + 1, 10 * value + 2], value=int)
    even, odd = items.split(lambda value: value % 2 == 0)
    numbers.to("out")
    even.merge(odd).map_values(lambda value: value, value=int).to("out")
    twice = odd.flat_map(lambda value: [value + 1000, value + 2000], value=int)
    high, low = twice.split(lambda value: value > 2000)
    high.to("out")
    low.to("out")
    numbers.filter(lambda value: value > 3).to("out")


@pytest.mark.parametrize(
    "build",
    [
        branches_that_are_merged,
        branches_that_write_one_topic,
        branches_whose_topic_is_a_function,
        branches_that_go_through_an_internal_topic,
        both_ways_of_each_record,
        ways_that_part_behind_a_flat_map,
    ],
)
def test_records_of_one_partition_stay_in_order_where_branches_merge(build: Build) -> None:
    def app() -> Builder:
        made = Builder()
        build(made.stream("in", key=str, value=int))
        return made

    values = [1, 2, 3, 4, 5, 6, 7, 8]

    assert found(app(), values) == meant(app(), values)


def test_a_table_behind_merged_branches_has_the_last_value() -> None:
    app = Builder()
    even, odd = app.stream("in", key=str, value=int).split(lambda value: value % 2 == 0)
    even.merge(odd).repartition(name="again").to_table(name="last").to_stream().to("out")

    assert found(app, [1, 2, 3, 4, 5, 6, 7, 8])[-1] == 8


def test_a_fold_after_a_flat_map_gets_merged_branches_in_order() -> None:
    def app() -> Builder:
        made = Builder()
        items = made.stream("in", key=str, value=int).flat_map(
            lambda value: [2 * value, 2 * value + 1], value=int
        )
        even, odd = items.split(lambda value: value % 2 == 0)
        folded = (
            even.merge(odd).group_by_key().aggregate(int, lambda total, value: (3 * total + value) % 9973)
        )
        folded.to_stream().to("out")
        return made

    values = [1, 2, 3, 4, 5, 6, 7, 8]

    assert found(app(), values, caches=False) == meant(app(), values)


def changes_under_one_key(app: Builder) -> None:
    changes = app.table("in", key=str, value=int, name="rows").to_stream(lambda key, value: "q", key=str)
    changes.to("out")
    changes.to_table(name="last")


def a_table_of_changes_under_one_key(app: Builder) -> None:
    changes = app.table("in", key=str, value=int, name="rows").to_stream(lambda key, value: "q", key=str)
    changes.to_table(name="last").to_stream().to("out")


def changes_that_are_mapped_to_one_key(app: Builder) -> None:
    table = app.stream("in", key=str, value=int).group_by_key().aggregate(int, lambda _, value: value)
    table.to_stream().map(lambda key, value: ("q", value), key=str, value=int).repartition().to("out")


def a_table_that_is_grouped_anew(app: Builder) -> None:
    rows = app.table("in", key=str, value=int, name="rows")
    grouped = rows.group_by(lambda key, value: ("q", value), key=str, value=int)
    made = grouped.aggregate(int, lambda total, value: (3 * total + value) % 9973, lambda total, value: total)
    made.to_stream().to("out")


@pytest.mark.parametrize(
    "build",
    [
        changes_under_one_key,
        a_table_of_changes_under_one_key,
        changes_that_are_mapped_to_one_key,
        a_table_that_is_grouped_anew,
    ],
)
@pytest.mark.parametrize("late", [0, 7])
def test_records_of_one_partition_stay_in_order_if_the_key_changes_after_state(
    build: Callable[[Builder], None], late: int
) -> None:
    def app() -> Builder:
        made = Builder()
        build(made)
        return made

    values = [(5 + at * 13) % 40 if late else at for at in range(40)]  # times increase with the values

    assert found(app(), values, "k{}".format, caches=False) == meant(app(), values, "k{}".format)


@pytest.mark.parametrize("fold", ["fold of columns", "fold of operators"])
def test_the_last_key_that_changed_is_the_last_one_of_a_batch_under_a_new_key(fold: str) -> None:
    app = Builder()
    grouped = app.stream("in", key=str, value=int).group_by_key()
    table = (
        grouped.count()
        if fold == "fold of columns"
        else grouped.aggregate(int, lambda found, value: found + 1)
    )
    table.to_stream(lambda key, count: "q", key=str).to("out")

    # then keys are in the order of their last records: 2 (once), 1 (twice), 0 (three times)
    assert found(app, [0, 1, 2, 3, 4, 5], lambda value: "021010"[value]) == [1, 2, 3]


def test_output_of_two_partitions_under_a_new_key_is_ordered_by_time() -> None:
    app = Builder()
    rows = app.table("in", key=str, value=int, name="rows")
    rows.to_stream(lambda key, value: "q", key=str).to("out")
    stages = Stages(app.topology, partitions=2, caches=False)
    for value in range(20):
        stages.send(
            "in", Written(b"k%d" % value, value.to_bytes(8, "big"), 1000 + value), partition=value % 3 % 2
        )
    stages.run()

    assert [int.from_bytes(record.value or b"", "big") for record in stages.written("out")] == list(range(20))


def test_output_that_bypasses_state_stays_in_order() -> None:
    app = Builder()
    numbers = app.stream("in", key=str, value=int)
    numbers.group_by_key().count()
    numbers.to("out")

    assert found(app, list(range(100))) == list(range(100))


def test_output_that_bypasses_state_is_ordered_with_output_of_state() -> None:
    def app() -> Builder:
        made = Builder()
        numbers = made.stream("in", key=str, value=int)
        numbers.to("out")
        numbers.group_by_key().aggregate(int, lambda total, value: total + value).to_stream().to("out")
        return made

    values = [1, 2, 3, 4, 5, 6, 7, 8]

    assert found(app(), values, caches=False) == meant(app(), values)


def test_tables_of_different_keys_write_one_topic_in_order() -> None:
    app = Builder()
    numbers = app.stream("in", key=str, value=int)
    numbers.group_by_key().aggregate(int, lambda total, value: value).to_stream().to("out")
    by_value = numbers.group_by(lambda key, value: str(value), key=str)
    by_value.aggregate(int, lambda total, value: value).to_stream(lambda key, value: "a", key=str).to("out")

    assert found(app, [1, 2, 3, 4, 5, 6], caches=False) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
