"""The order of an application's stages, with fake queries."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.errors import IllegalState
from penstock.streams import running
from penstock.streams.running import AppFailed, Draining, Running


class FakeQuery:
    """A query that ended by itself after it read this many rows."""

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
    """Stages by name with the input of each of their runs, and the order in which they run."""
    begun: list[str] = []

    def begin(stage: Any) -> Any:
        begun.append(stage)
        return FakeQuery(stage, rows[stage].pop(0) if rows[stage] else 0)

    stages: Any = list(rows)
    return Draining("counts", stages, begin, lambda one, other: (one, other) in feeds), begun


def test_stages_run_in_turn_and_again_after_new_input() -> None:
    run, begun = draining({"a": [5, 3], "b": [2, 0]}, {("a", "b"), ("b", "a")})

    while run.go_on():
        pass

    assert begun == ["a", "b", "a", "b"]  # the last one found nothing, and so produced no input for others


def test_after_a_stop_no_further_stage_starts() -> None:
    run, begun = draining({"a": [5], "b": [2]}, {("a", "b")})
    run.go_on()

    run.stop()

    assert not run.go_on()
    assert begun == ["a"]


def test_wait_waits_for_the_current_query() -> None:
    run, begun = draining({"a": [5], "b": [2]}, set())
    run.go_on()
    (query,) = run
    query.isActive = True  # type: ignore[misc]

    assert run.go_on()
    assert begun == ["a"]


def test_an_application_that_reads_its_own_output_forever_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ROUNDS_MAX", 3)
    run, _ = draining({"a": [1] * 9}, {("a", "a")})

    assert all(run.go_on() for _ in range(3))
    with pytest.raises(IllegalState, match="counts reads its own output and never finishes"):
        run.go_on()


def test_a_failed_query_stops_the_others() -> None:
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
    """Queries that fail this often before one of them lasts."""

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


def test_a_query_that_lost_a_process_is_restarted_alone() -> None:
    lost, other = Stage("lost", [LOST]), Stage("other", [])
    run = running_app(lost, other)

    assert run.go_on()

    assert list(run) == [lost.begun[1], other.begun[0]]
    assert run.is_active


def test_a_query_that_keeps_losing_processes_fails() -> None:
    stage = Stage("lost", [LOST] * 9)
    run = running_app(stage)

    for _ in range(running.LOSSES_MAX):
        run.go_on()

    with pytest.raises(AppFailed, match="the query lost failed: the process in which Spark asks the source"):
        run.go_on()
    assert len(stage.begun) == 1 + running.LOSSES_MAX


def test_old_losses_do_not_count() -> None:
    times = (running.LOSSES_SECONDS * count for count in itertools.count())
    stage = Stage("lost", [LOST] * 9)
    run = running_app(stage, clock=lambda: next(times))

    for _ in range(9):
        run.go_on()

    assert run.is_active
    assert len(stage.begun) == 10


def test_a_stopped_query_is_not_restarted() -> None:
    stage = Stage("lost", [LOST])
    run = running_app(stage)
    run.stop()

    with pytest.raises(AppFailed):
        run.check()

    assert len(stage.begun) == 1


def test_the_output_of_a_lost_query_is_input_for_other_stages() -> None:
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
