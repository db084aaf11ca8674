"""Where a stage starts without a checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from penstock.streams import Builder
from penstock.streams.compile.cut import Stage, cut
from penstock.streams.compile.starts import Places, starting_offsets
from penstock.streams.compile.tasks import Program

PROGRAM = Program("app", {}, topics={"a": 2, "b": 1, "app-again-repartition": 1, "app-t-repartition": 1})


class FakeCluster:
    def matching(self, pattern: str) -> Mapping[str, int]:
        return {topic: 1 for topic in ("log-1", "log-2") if re.fullmatch(pattern, topic)}

    def since(self, topic: str, partitions: int, ago: timedelta) -> Places:
        return {str(index): round(ago.total_seconds()) for index in range(partitions)}


def joined(app: Builder, left: Any, right: Any, topic: Any = "a") -> None:
    """Two topics that one stage reads."""
    one = app.stream(topic, key=str, value=str, reset=left)
    one.join(app.table("b", key=str, value=str, reset=right), lambda a, b: a, value=str).to("out")


def start(stage: Stage) -> Any:
    said = starting_offsets(stage, PROGRAM, "earliest", FakeCluster())
    return json.loads(said) if said.startswith("{") else said


@pytest.mark.parametrize(
    ("left", "right", "begins"),
    [
        (None, None, "earliest"),
        ("latest", "latest", "latest"),
        ("latest", None, {"a": {"0": -1, "1": -1}, "b": {"0": -2}}),
        (timedelta(hours=1), "latest", {"a": {"0": 3600, "1": 3600}, "b": {"0": -1}}),
        (timedelta(), timedelta(), {"a": {"0": 0, "1": 0}, "b": {"0": 0}}),
    ],
)
def test_each_topic_starts_where_its_source_says(left: Any, right: Any, begins: Any) -> None:
    app = Builder()
    joined(app, left, right)
    (stage,) = cut(app.topology).stages

    assert start(stage) == begins


def test_topics_of_a_pattern_are_looked_up_if_each_must_be_named() -> None:
    app = Builder()
    joined(app, "latest", "earliest", re.compile("log-.*"))
    (stage,) = cut(app.topology).stages

    assert start(stage) == {"log-1": {"0": -1}, "log-2": {"0": -1}, "b": {"0": -2}}


def test_internal_topics_are_read_from_the_beginning() -> None:
    app = Builder()
    rows = app.table("a", key=str, value=str, reset="latest")
    rows.group_by(lambda value: (value, value), key=str, value=str).count(name="t").to("out")
    found = [start(stage) for stage in cut(app.topology).stages]

    assert sorted(found, key=str) == ["earliest", "latest"]
