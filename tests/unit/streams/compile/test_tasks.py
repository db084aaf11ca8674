"""Reading tasks apart from operators: sources, sinks, and failed records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder
from penstock.streams.compile.failures import OperatorFailed


@dataclass
class Order:
    item: str
    cents: int


def text(value: str, time_ms: int = 0, key: bytes | None = None) -> Written:
    return Written(key, value.encode(), time_ms)


def values(stages: Stages, topic: str) -> list[bytes | None]:
    return sorted((record.value for record in stages.written(topic)), key=repr)


def test_topics_that_match_a_pattern_are_read_whenever_they_appear() -> None:
    app = Builder()
    app.stream(re.compile(r"logs-.*"), value=str).to("all")
    stages = Stages(app.topology)
    stages.send("logs-a", text("1"))
    stages.send("other", text("2"))
    stages.run()

    stages.send("logs-b", text("3"))
    stages.run()

    assert values(stages, "all") == [b"1", b"3"]


def test_time_may_come_from_the_value_and_records_without_any_are_dropped() -> None:
    app = Builder()
    app.stream("in", value=str, timestamp=int).to("out")
    stages = Stages(app.topology)
    for value in ("5", "-1", "7"):
        stages.send("in", text(value, 99))
    stages.run()

    assert sorted(record.timestamp_ms for record in stages.written("out")) == [5, 7]


def test_the_time_comes_from_the_value_also_for_a_pattern() -> None:
    app = Builder()
    app.stream(re.compile(r"logs-.*"), value=str, timestamp=int).to("out")
    stages = Stages(app.topology)
    stages.send("logs-a", text("5", 99))
    stages.run()

    assert [record.timestamp_ms for record in stages.written("out")] == [5]


def test_a_sink_may_choose_topic_and_partition_of_each_record() -> None:
    app = Builder()
    stream = app.stream("in", value=str)
    stream.to(lambda value: f"to-{value[0]}", partition=lambda value, count: len(value) % count)
    stages = Stages(app.topology, partitions=3)
    for value in ("a", "bb", "bbb", "bbbb"):
        stages.send("in", text(value))
    stages.run()

    assert [len(partition) for partition in stages.log["to-b"]] == [1, 1, 1]
    assert [len(partition) for partition in stages.log["to-a"]] == [0, 1, 0]


@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("is_behind_state", [False, True])
def test_a_repartition_function_chooses_the_partition(is_behind_state: bool, caches: bool) -> None:
    app = Builder()
    stream = app.stream("in", key=str, value=str)
    if is_behind_state:
        stream = stream.group_by_key().count().to_stream().map_values(str)
    stream.repartition(partition=lambda key, value, count: len(key) % count, name="between").to("out")
    stages = Stages(app.topology, partitions=3, caches=caches)
    for key in ("a", "bb", "cc", "ddd"):
        stages.send("in", Written(key.encode(), b"x", 1))
    stages.run()

    found = [[record.key for record in partition] for partition in stages.log["app-between-repartition"]]
    assert [sorted(keys) for keys in found] == [[b"ddd"], [b"a"], [b"bb", b"cc"]]
    assert len(stages.written("out")) == 4


def test_headers_stay_with_their_record() -> None:
    app = Builder()
    stream = app.stream("in", key=str, value=str).flat_map(str.split)
    stream.filter(lambda value: value != "b").to("out")
    stages = Stages(app.topology)
    stages.send("in", Written(b"k", b"a b c", 1, (("n", b"1"), ("n", None))))
    stages.send("in", Written(b"k", b"d", 2))
    stages.run()

    assert [(record.value, record.headers) for record in stages.written("out")] == [
        (b"a", (("n", b"1"), ("n", None))),
        (b"c", (("n", b"1"), ("n", None))),
        (b"d", ()),
    ]


def test_user_classes_are_sent_as_bytes_of_their_serde() -> None:
    app = Builder()
    orders = app.stream("orders", key=str, value=Order)
    totals = orders.group_by(lambda order: order.item, key=str).aggregate(
        lambda: Order("none", 0),
        lambda have, new: Order(new.item, have.cents + new.cents),
        value=Order,
        name="t",
    )
    totals.to("totals")
    stages = Stages(app.topology)
    for cents in (1, 2):
        stages.send("orders", text(f'{{"item": "tea", "cents": {cents}}}'))
        stages.run()

    assert values(stages, "totals")[-1] == b'{"item":"tea","cents":3}'


def test_a_record_that_cannot_be_written_is_named_by_its_offset() -> None:
    app = Builder()
    app.stream("in", key=str, value=str).map_values(lambda v: v or object(), value=str, name="odd").to("out")
    stages = Stages(app.topology, partitions=1)
    for value in ("a", "", "c"):
        stages.send("in", text(value, 1, b"k"))

    with pytest.raises(OperatorFailed, match="sink-1 failed at in-0 offset 1: "):
        stages.run()


@pytest.mark.parametrize("how", ["unreadable", "failed", "failed behind state"])
def test_a_failed_record_is_reported_or_skipped(how: str) -> None:
    app = Builder()
    if how == "unreadable":
        app.stream("in", key=str, value=int).to("out")
        bad, good = b"short", (7).to_bytes(8, "big")
    else:
        stream: Any = app.stream("in", key=str, value=str)
        if how == "failed behind state":
            stream = stream.group_by_key().reduce(lambda _, new: new, name="last").to_stream()
        stream.map_values(int, value=int, name="to-int").to("out")
        bad, good = b"x", b"7"

    def run(**program: Any) -> Stages:
        stages = Stages(app.topology, partitions=1, caches=False, **program)
        for value in (good, bad, good):
            stages.send("in", Written(b"k", value, 5))
        stages.run()
        return stages

    with pytest.raises(OperatorFailed, match=r"failed at in-0 offset 1: "):
        run()
    stages = run(skips_unreadable=True, skips_failed=True, dead_letters="dead")
    assert len(stages.written("out")) == 2
    (letter,) = stages.written("dead")
    headers = dict(letter.headers)
    assert headers["__streams.errors.topic"] == b"in"
    assert headers["__streams.errors.offset"] == b"1"


def test_a_changelog_equals_its_table() -> None:
    app = Builder()
    app.stream("in", key=str, value=str).group_by_key().count(name="counts")
    stages = Stages(app.topology)
    for _ in range(3):
        stages.send("in", text("v", 1, b"k"))
    stages.run()

    assert stages.written("app-counts-changelog") == [Written(b"k", (3).to_bytes(8, "big"), 1)]


def test_a_record_without_a_valid_time_is_an_error() -> None:
    app = Builder()
    app.stream("in", key=str, value=str, name="lines").to("out")

    def run(**program: Any) -> Stages:
        stages = Stages(app.topology, partitions=1, **program)
        for time_ms in (5, -1, 7):
            stages.send("in", text("v", time_ms, b"k"))
        stages.run()
        return stages

    with pytest.raises(OperatorFailed, match=r"lines failed at in-0 offset 1: .*timestamp -1 ms is invalid"):
        run()
    stages = run(skips_unreadable=True, dead_letters="dead")
    assert [record.timestamp_ms for record in stages.written("out")] == [5, 7]
    assert len(stages.written("dead")) == 1
