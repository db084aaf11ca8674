"""An aggregate that JSON does not preserve is rejected, wherever batches end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.stages import Stages, Written
from penstock.streams import Builder, serde, session, tumbling
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.nouns import TopologyError
from penstock.testing import TopologyTest

Build = Callable[[Any], Any]


def counted(have: Any, value: int) -> Any:
    have[value] = have.get(value, 0) + 1
    return have


@dataclass(eq=False)
class Seen:
    values: list[float] = field(default_factory=list)

    def add(self, value: int) -> Seen:
        self.values.append(value / 3)
        return self


@dataclass
class Loose:
    values: list  # type: ignore[type-arg]


REFUSED: dict[str, Build] = {
    "numbers as keys": lambda g: g.aggregate(dict, counted, value=dict, name="x"),
    "numbers as keys of a dict in a dict": lambda g: g.aggregate(
        dict, lambda have, v: {"n": {v: 1}}, value=dict, name="x"
    ),
    "tuples": lambda g: g.aggregate(list, lambda have, v: [*have, (v, 1)], value=list, name="x"),
    "a tuple that was to be a list": lambda g: g.aggregate(
        list, lambda have, v: (*have, v), value=list[int], name="x"
    ),
    "tuples in a dataclass": lambda g: g.aggregate(
        lambda: Loose([]), lambda have, v: Loose([*have.values, (v,)]), value=Loose, name="x"
    ),
    "windows": lambda g: g.windowed_by(tumbling(9)).aggregate(dict, counted, value=dict, name="x"),
    "sessions": lambda g: g.windowed_by(session(9)).aggregate(
        dict, counted, merger=lambda a, b: b, value=dict, name="x"
    ),
}

TAKEN: dict[str, tuple[Build, bytes]] = {
    "numbers as keys that are said": (
        lambda g: g.aggregate(dict, counted, value=dict[int, int], name="x"),
        b'{"7":4}',
    ),
    "pairs that are said": (
        lambda g: g.aggregate(list, lambda have, v: [*have, (v, 1)], value=list[tuple[int, int]], name="x"),
        b"[[7,1],[7,1],[7,1],[7,1]]",
    ),
    "a dict of another class": (
        lambda g: g.aggregate(dict, lambda have, v: Counter(have) + Counter([str(v)]), value=dict, name="x"),
        b'{"7":4}',
    ),
    "a class without equality": (
        lambda g: g.aggregate(Seen, lambda have, v: have.add(v * 3), value=Seen, name="x"),
        b'{"values":[7.0,7.0,7.0,7.0]}',
    ),
    "a serde of one's own": (
        lambda g: g.aggregate(
            dict, counted, value=serde(lambda d: repr(d).encode(), lambda b: eval(b)), name="x"
        ),
        b"{7: 4}",
    ),
}


def app_of(build: Build) -> Builder:
    app = Builder()
    build(app.stream("in", key=str, value=int).group_by_key())
    return app


def run_stages(build: Build, batches: list[int]) -> Stages:
    stages = Stages(app_of(build).topology, partitions=1)
    for count in batches:
        for _ in range(count):
            stages.send("in", Written(b"a", (7).to_bytes(8, "big"), 1))
        stages.run()
    return stages


@pytest.mark.parametrize("batches", [[4], [2, 2], [1, 1, 1, 1]])
@pytest.mark.parametrize("what", REFUSED)
def test_an_aggregate_that_json_does_not_preserve_is_rejected_at_once(what: str, batches: list[int]) -> None:
    with pytest.raises(OperatorFailed, match=r"x failed at in-0 offset .* JSON does not preserve .*'a'"):
        run_stages(REFUSED[what], batches)


@pytest.mark.parametrize("what", REFUSED)
def test_a_topology_test_rejects_it_too(what: str) -> None:
    test = TopologyTest(app_of(REFUSED[what]))
    with (
        test,
        pytest.raises(TopologyError, match=r"JSON does not preserve the aggregate of key .*'a'") as refusal,
    ):
        test.input("in").send(7, key="a", timestamp_ms=1)
    assert "in the node x" in refusal.value.__notes__


@pytest.mark.parametrize("batches", [[4], [2, 2], [1, 1, 1, 1]])
@pytest.mark.parametrize("what", TAKEN)
def test_an_aggregate_that_json_preserves_is_accepted(what: str, batches: list[int]) -> None:
    build, value = TAKEN[what]
    stages = run_stages(build, batches)
    assert stages.written("app-x-changelog")[-1].value == value
    with TopologyTest(app_of(build)) as test:
        for _ in range(4):
            test.input("in").send(7, key="a", timestamp_ms=1)


def test_the_error_shows_the_part_of_a_long_aggregate_that_changes() -> None:
    def build(grouped: Any) -> None:
        grouped.aggregate(
            dict, lambda have, v: {"names": ["x" * 99] * 9, "seen": {v: 1}}, value=dict, name="x"
        )

    with pytest.raises(OperatorFailed, match=r"\{7: 1\} becomes \{'7': 1\}"):
        run_stages(build, [1])
