"""How the stages of an application follow one another; by queries that are none of Spark's."""

from __future__ import annotations

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
    run, begun = draining({"a": [5], "b": [2]}, set())
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
    run = Running("counts", [good, bad])

    with pytest.raises(AppFailed, match="counts: the query bad failed: ValueError: no price"):
        run.go_on()

    assert good.is_stopped
