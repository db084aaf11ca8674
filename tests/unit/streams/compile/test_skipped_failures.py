"""With `processing.exception.handler=continue` a record that fails in state is skipped only where it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder, Stream, Table, session, sliding, tumbling, within

BAD = "bad"


def grown(have: list[str], value: str) -> list[str]:
    """Changes the aggregate in place, then raises."""
    have.append(value)
    if value == BAD:
        raise ValueError("it is bad")
    return have


def checked(value: Any) -> Any:
    if BAD in str(value):
        raise ValueError("it is bad")
    return value


def skipping(build: Callable[[Stream[str, str]], object], batches: list[list[str]], **program: Any) -> Stages:
    app = Builder()
    build(app.stream("in", key=str, value=str))
    stages = Stages(app.topology, partitions=1, skips_failed=True, dead_letters="dead", **program)
    at = 0
    for batch in batches:
        for value in batch:
            stages.send("in", Written(b"a", value.encode(), at))
            at += 1
        stages.run()
    return stages


FOLDS: dict[str, Callable[[Stream[str, str]], Table[Any, Any]]] = {
    "aggregate": lambda s: s.group_by_key().aggregate(list, grown, value=list[str], name="folded"),
    "windows": lambda s: (
        s.group_by_key().windowed_by(tumbling(9)).aggregate(list, grown, value=list[str], name="folded")
    ),
    "sliding windows": lambda s: (
        s.group_by_key()
        .windowed_by(sliding(9, grace=9))
        .aggregate(list, grown, value=list[str], name="folded")
    ),
    "sessions": lambda s: (
        s.group_by_key()
        .windowed_by(session(9))
        .aggregate(list, grown, merger=lambda a, b: a + b, value=list[str], name="folded")
    ),
    "table": lambda s: (
        s.to_table()
        .group_by(lambda k, v: (k, v), key=str, value=str)
        .aggregate(list, grown, lambda have, v: have, value=list[str], name="folded")
    ),
}


@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize(
    "batches",
    [[["x", BAD, "y"]], [["x"], [BAD], ["y"]], [["x"], [BAD, "y"]], [[BAD, "x", BAD], [BAD, "y", BAD]]],
)
@pytest.mark.parametrize("what", FOLDS)
def test_a_fold_that_fails_half_way_leaves_the_aggregate_unchanged(
    what: str, batches: list[list[str]], caches: bool
) -> None:
    stages = skipping(
        lambda s: FOLDS[what](s).to_stream(lambda k, v: "a", key=str).to("out"), batches, caches=caches
    )

    found = [json.loads(record.value) for record in stages.written("out") if record.value is not None]
    assert found[-1] == ["x", "y"]


@pytest.mark.parametrize("caches", [True, False])
def test_the_dead_letter_of_a_fold_has_the_key_and_value_of_its_record(caches: bool) -> None:
    stages = skipping(FOLDS["aggregate"], [["x", BAD, "y"]], caches=caches)

    (letter,) = stages.written("dead")
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"a", BAD.encode(), 1)
    headers = dict(letter.headers)
    assert headers["__streams.errors.operator"] == b"folded"
    assert headers["__streams.errors.offset"] == b"1"


def test_a_dead_letter_after_a_fold_has_its_key() -> None:
    def build(stream: Stream[str, str]) -> None:
        folded = stream.group_by_key().aggregate(list, lambda a, v: [*a, v], value=list[str], name="folded")
        folded.to_stream().map_values(checked, name="behind").to("out")

    stages = skipping(build, [["x", BAD]])

    (letter,) = stages.written("dead")
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"a", None, 1)
    assert dict(letter.headers)["__streams.errors.operator"] == b"behind"


@pytest.mark.parametrize("caches", [True, False])
def test_only_the_failed_child_misses_the_record(caches: bool) -> None:
    def build(stream: Stream[str, str]) -> None:
        table = stream.group_by_key().reduce(lambda a, b: b, name="last").to_stream()
        table.map_values(checked, name="fails").to("checked")
        several = table.flat_map_values(lambda v: [f"{v}{number}" for number in range(3)], value=str)
        several.map_values(lambda v: checked(v) if v.endswith("1") else v, name="fails-once").to("several")
        table.to("out")

    stages = skipping(build, [["x"], [BAD]], caches=caches)

    assert values(stages, "checked") == [b"x"]
    assert values(stages, "several") == [b"x0", b"x1", b"x2", b"bad0", b"bad2"]
    assert values(stages, "out") == [b"x", b"bad"]
    assert [dict(letter.headers)["__streams.errors.operator"] for letter in stages.written("dead")] == [
        b"fails",
        b"fails-once",
    ]


def test_records_buffered_behind_a_failed_one_are_still_emitted() -> None:
    def build(stream: Stream[str, str]) -> None:
        nothing = stream.filter(lambda v: False)
        stream.left_join(nothing, lambda a, b: checked(a), within=within(0.001, grace=0), value=str).to("out")

    stages = skipping(build, [[BAD, "x"]])
    for time_ms in (100, 200):
        stages.send("in", Written(b"another key", b"later", time_ms))
        stages.run()

    assert [record for record in stages.written("out") if record.key == b"a"] == [Written(b"a", b"x", 1)]
    assert len(stages.written("dead")) == 1


def values(stages: Stages, topic: str) -> list[bytes | None]:
    return [record.value for record in stages.written(topic)]
