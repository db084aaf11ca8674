"""How the stages of an application follow one another; by queries that are none of Spark's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.errors import IllegalState
from penstock.streams import running
from penstock.streams.running import AppFailed, Draining, Running


class FakeQuery:
    """One that has ended by itself, after it has read so many rows."""

    def __init__(
        self, name: str, rows: int = 0, *, is_active: bool = False, error: Exception | None = None
    ) -> None:
        self.name = name
        self.isActive = is_active
        self.recentProgress = [{"numInputRows": rows}]
        self.lastProgress = None
        self.status = {"isTriggerActive": False, "message": "Stopped"}
        self.error = error
        self.is_stopped = False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False
        self.is_stopped = True


def draining(rows: dict[str, list[int]], feeds: set[tuple[str, str]]) -> tuple[Draining, list[str]]:
    """Stages by name, with what each of their runs reads; and the order in which they run."""
    begun: list[str] = []

    def begin(stage: Any) -> Any:
        begun.append(stage)
        return FakeQuery(stage, rows[stage].pop(0) if rows[stage] else 0)

    stages: Any = list(rows)
    return Draining("counts", stages, begin, lambda one, other: (one, other) in feeds), begun


def test_stages_run_one_after_another_and_again_where_another_has_fed_them() -> None:
    run, begun = draining({"a": [5, 3], "b": [2, 0]}, {("a", "b"), ("b", "a")})

    while run.go_on():
        pass

    assert begun == ["a", "b", "a", "b"]  # the last one found nothing, and so fed nobody


def test_a_stop_leaves_the_stages_that_wait() -> None:
    run, begun = draining({"a": [5], "b": [2]}, {("a", "b")})
    run.go_on()

    run.stop()

    assert not run.go_on()
    assert begun == ["a"]


def test_a_query_at_hand_is_waited_for() -> None:
    run, begun = draining({"a": [5], "b": [2]}, set())
    run.go_on()
    (query,) = run
    query.isActive = True  # type: ignore[misc]

    assert run.go_on()
    assert begun == ["a"]


def test_what_feeds_itself_for_ever_does_not_do_so_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ROUNDS_MAX", 3)
    run, _ = draining({"a": [1] * 9}, {("a", "a")})

    assert all(run.go_on() for _ in range(3))
    with pytest.raises(IllegalState, match="counts feeds itself and comes to no end"):
        run.go_on()


def test_one_that_fails_ends_the_others() -> None:
    error = RuntimeError('Traceback (most recent call last):\n  File "x"\nValueError: no price\n')
    good: Any = FakeQuery("good", is_active=True)
    bad: Any = FakeQuery("bad", error=error)
    run = Running("counts", lambda stage: stage)  # type: ignore[arg-type, return-value]
    run.begin(good, bad)

    with pytest.raises(AppFailed, match="counts: the query bad failed: ValueError: no price"):
        run.go_on()

    assert good.is_stopped


LOST = "Broken pipe\n=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\n"


class Stage:
    """One whose queries fail so often before one of them lasts."""

    def __init__(self, name: str, failures: list[str]) -> None:
        self.name = name
        self.failures = failures
        self.begun: list[FakeQuery] = []

    def begin(self) -> FakeQuery:
        error = RuntimeError(self.failures.pop(0)) if self.failures else None
        self.begun.append(FakeQuery(self.name, 1, is_active=error is None, error=error))
        return self.begun[-1]


def running_app(*stages: Stage, clock: Callable[[], float] = lambda: 0.0) -> Running:
    begin: Any = Stage.begin
    run = Running("counts", begin, clock=clock)
    run.begin(*stages)  # type: ignore[arg-type]
    return run


def test_a_query_that_has_lost_a_process_goes_on_and_the_others_are_left_alone() -> None:
    lost, other = Stage("lost", [LOST]), Stage("other", [])
    run = running_app(lost, other)

    assert run.go_on()

    assert list(run) == [lost.begun[1], other.begun[0]]
    assert run.is_active


def test_one_that_loses_a_process_again_and_again_fails() -> None:
    stage = Stage("lost", [LOST] * 9)
    run = running_app(stage)

    for _ in range(running.LOSSES_MAX):
        run.go_on()

    with pytest.raises(AppFailed, match="the query lost failed: the process in which Spark asks the source"):
        run.go_on()
    assert len(stage.begun) == 1 + running.LOSSES_MAX


def test_losses_of_long_ago_do_not_count() -> None:
    times = (running.LOSSES_SECONDS * count for count in itertools.count())
    stage = Stage("lost", [LOST] * 9)
    run = running_app(stage, clock=lambda: next(times))

    for _ in range(9):
        run.go_on()

    assert run.is_active
    assert len(stage.begun) == 10


def test_what_is_stopped_is_not_begun_again() -> None:
    stage = Stage("lost", [LOST])
    run = running_app(stage)
    run.stop()

    with pytest.raises(AppFailed):
        run.check()

    assert len(stage.begun) == 1


def test_what_a_lost_query_has_written_is_input_for_others() -> None:
    lost = FakeQuery("a", 5, error=RuntimeError(LOST))
    queries = {"a": [lost, FakeQuery("a", 0)], "b": [FakeQuery("b", 5), FakeQuery("b", 0)]}
    begun = []

    def begin(stage: Any) -> Any:
        begun.append(stage)
        return queries[stage].pop(0)

    stages: Any = ["b", "a"]
    run = Draining("counts", stages, begin, lambda one, other: (one, other) == ("a", "b"))

    while run.go_on():
        pass

    assert begun == ["b", "a", "a", "b"]
