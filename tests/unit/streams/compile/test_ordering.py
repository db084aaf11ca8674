"""What is written is in the order of what caused it, wherever ways part and meet again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder, Stream
from penstock.testing import TopologyTest

Build = Callable[[Stream[str, int]], None]


def meant(app: Builder, values: list[int], topic: str = "out") -> list[Any]:
    with TopologyTest(app) as test:
        for value in values:
            test.input("in").send(value, key="a", timestamp_ms=1000 + value)
        return list(test.output(topic).read_values())


def found(app: Builder, values: list[int], topic: str = "out", seed: int = 0) -> list[Any]:
    stages = Stages(app.topology, partitions=1, rng=random.Random(seed))
    for value in values:
        stages.send("in", Written(b"a", value.to_bytes(8, "big"), 1000 + value))
    stages.run()
    return [int.from_bytes(record.value or b"", "big") for record in stages.written(topic)]


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
def test_records_of_one_partition_stay_in_order_where_ways_meet_again(build: Build) -> None:
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
