"""Which changes of a program fit its checkpoint, and the messages for those that do not."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.stages import Stages
from penstock.streams import (
    Builder,
    Processor,
    Record,
    Stream,
    key_value_store,
    session,
    tumbling,
    until_time_limit,
)
from penstock.streams.compile.fingerprint import changes, fingerprint_of, following, refusal

Build = Callable[[Builder], object]


class Passing(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)


class Ticking(Passing):
    def init(self, context: Any) -> None:
        context.schedule(1, lambda time_ms: None, clock="wall")


def numbers(app: Builder, topic: str = "numbers") -> Stream[str, int]:
    return app.stream(topic, key=str, value=int)


def found_changes(before: Build, after: Build, *, caches: tuple[bool, bool] = (True, True)) -> list[str]:
    old, new = (_fingerprint(build, cached) for build, cached in zip((before, after), caches, strict=True))
    return changes(json.loads(json.dumps(old)), new)


def _fingerprint(build: Build, caches: bool) -> dict[str, Any]:
    app = Builder()
    build(app)
    stages = Stages(app.topology, caches=caches)
    return fingerprint_of((running.stage, running.domains) for running in stages.running)


def counted(app: Builder) -> None:
    numbers(app).group_by_key().count(name="counts").to("out")


def counted_by_rest(app: Builder) -> None:
    numbers(app).group_by(lambda value: value % 3, key=int).count().to("out")


def with_a_filter(app: Builder) -> None:
    some = numbers(app).filter(lambda value: value > 3).map_values(lambda value: value + 1, value=int)
    some.group_by_key().count(name="counts").filter(lambda count: count > 1).to("other")


def with_another_table(app: Builder) -> None:
    counted(app)
    numbers(app, "more").group_by_key().count(name="more-counts").to("out")


def behind_state(app: Builder, key: Any = str) -> None:
    counts = numbers(app).group_by_key().count(name="first").to_stream()
    counts.group_by(lambda value: key(value), key=key, name="again").count(name="second").to("out")


def two_unnamed(app: Builder, *, is_new_first: bool) -> None:
    new, old = (lambda value: value % 5), (lambda value: value % 3)
    for function in (new, old) if is_new_first else (old, new):
        numbers(app).group_by(function, key=int).count().to("out")


@dataclass
class Same:
    before: Build
    after: Build


HARMLESS = {
    "nothing": Same(counted, counted),
    "a filter more, and other outputs": Same(counted, with_a_filter),
    "a table more": Same(counted, with_another_table),
    "another function": Same(
        lambda app: numbers(app).group_by_key().reduce(lambda a, b: a + b).to("out"),
        lambda app: numbers(app).group_by_key().reduce(lambda a, b: a - b).to("out"),
    ),
    "a function that is no fold of columns": Same(
        lambda app: numbers(app).group_by_key().reduce(operator.add, name="sums"),
        lambda app: numbers(app).group_by_key().reduce(lambda a, b: a + b, name="sums"),
    ),
    "a filter of a table less": Same(with_a_filter, counted),
    "another grace": Same(
        lambda app: numbers(app).group_by_key().windowed_by(session(5)).count(name="c"),
        lambda app: numbers(app).group_by_key().windowed_by(session(5, grace=9)).count(name="c"),
    ),
    "a stream that is no longer read": Same(with_another_table, counted),
    "one more unnamed table, behind": Same(counted_by_rest, lambda app: two_unnamed(app, is_new_first=False)),
    "one more topic": Same(
        lambda app: app.stream(["a"], key=str, value=int).to("out"),
        lambda app: app.stream(["a", "b"], key=str, value=int).to("out"),
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_changes_that_leave_state_alone_are_accepted(name: str) -> None:
    assert found_changes(HARMLESS[name].before, HARMLESS[name].after) == []


HARMFUL: dict[str, tuple[Build, Build, str]] = {
    "another name": (
        lambda app: (counted(app), numbers(app).to_table(name="kept")),
        lambda app: (counted(app), numbers(app).to_table(name="saved")),
        r"the state kept \(a table\) was removed or renamed; new: saved",
    ),
    "another kind": (
        counted,
        lambda app: numbers(app).group_by_key().reduce(max, name="counts").to("out"),
        "the state counts was a count, now a reduce",
    ),
    "other windows": (
        lambda app: numbers(app).group_by_key().windowed_by(tumbling(5)).count(name="c"),
        lambda app: numbers(app).group_by_key().windowed_by(tumbling(6)).count(name="c"),
        "windows of 5000 ms every 5000 ms, now a count in windows of 6000 ms",
    ),
    "another type": (
        lambda app: numbers(app).group_by_key().aggregate(int, operator.add, name="sums"),
        lambda app: numbers(app).group_by_key().aggregate(float, lambda a, b: a + b, name="sums"),
        "the state sums had values of int, now float",
    ),
    "a processor in addition to a table": (
        lambda app: numbers(app).group_by_key().count(name="c").suppress(until_time_limit(1)),
        lambda app: (
            numbers(app)
            .group_by_key()
            .count(name="c")
            .suppress(until_time_limit(1))
            .to_stream()
            .process(Passing)
        ),
        "the state c was stored in 16 pages, now 1",
    ),
    "a history": (
        lambda app: app.table("t", key=str, value=int),
        lambda app: app.table("t", key=str, value=int, history=5),
        "the state t was a table, now a versioned table",
    ),
    "another store": (
        lambda app: numbers(app).process(Passing, stores=[key_value_store("s", key=str, value=int)]),
        lambda app: numbers(app).process(Passing, stores=[key_value_store("s", key=str, value=str)]),
        "the state store s had values of int, now str",
    ),
    "a topic that another stage reads": (
        lambda app: numbers(app).to("out"),
        counted,
        "numbers was read by the stage source-1 and is now read by counts, which has no offsets for it",
    ),
    "a repartition topic of another type": (
        behind_state,
        lambda app: behind_state(app, int),
        "the repartition topic second-repartition contained str: int and would contain int: int",
    ),
    "one more unnamed table, before": (
        counted_by_rest,
        lambda app: two_unnamed(app, is_new_first=True),
        "the state count-1 is computed differently, and count-2 is new",
    ),
    "another clock": (
        lambda app: numbers(app).process(Passing),
        lambda app: numbers(app).process(Ticking),
        "the stage process-1 used event time and would use wall-clock time",
    ),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_changes_that_would_mix_up_state_are_reported(name: str) -> None:
    before, after, expected = HARMFUL[name]

    found = found_changes(before, after)

    assert found
    assert [change for change in found if re.search(expected, change)], found


def test_the_number_of_pages_left_by_a_fold_stays_recorded() -> None:
    """Buckets that were not touched while it was a fold are still in the old form."""

    def windows(app: Builder) -> Any:
        return numbers(app).group_by_key().windowed_by(tumbling(5)).count(name="counts")

    builds: list[Build] = [
        lambda app: windows(app).filter(bool),
        windows,
        lambda app: windows(app).to_stream().process(Passing),
    ]
    filtered, folded, in_one_page = (_fingerprint(build, True) for build in builds)
    after = following(filtered, folded)

    assert changes(filtered, folded) == []
    assert changes(folded, in_one_page) == []
    assert changes(after, in_one_page) == ["the state counts was stored in 16 pages, now 1"]
    assert following(after, folded) == after


def test_caches_may_be_switched_on_and_off() -> None:
    assert found_changes(counted, counted, caches=(True, False)) == []


def test_a_refusal_says_what_to_do() -> None:
    expected = refusal("app", "/state/app", ["the state counts was removed"])

    assert expected.startswith(
        "app does not match its checkpoint in /state/app:\n- the state counts was removed\n"
    )
    assert "application.id" in expected
