from __future__ import annotations

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.result import DONE, CoordinatorResult
from penstock.coordinator.timers import Action, Timers


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0
        self.alarms = 0
        self.timers = Timers(lambda: self.now_ms, self._earlier)

    def _earlier(self) -> None:
        self.alarms += 1

    def due(self) -> list[object]:
        found = []
        while (due := self.timers.take_due()) is not None:
            found.append(due[0])
        return found


class Guest:
    """A key with a weak reference, to see that it is freed."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


def nothing() -> CoordinatorResult[None]:
    return DONE


def test_a_timer_expires_once_and_not_early(clock: Clock) -> None:
    clock.timers.set("a", 10, nothing)

    clock.now_ms = 9
    assert clock.due() == []
    clock.now_ms = 10
    assert clock.due() == ["a"]
    assert clock.due() == []
    assert "a" not in clock.timers


def test_timers_expire_in_order(clock: Clock) -> None:
    for key, delay_ms in (("c", 30), ("a", 10), ("b", 20), ("b2", 20)):
        clock.timers.set(key, delay_ms, nothing)

    clock.now_ms = 100
    assert clock.due() == ["a", "b", "b2", "c"]


def test_cancelled_timers_are_freed_before_their_deadline(clock: Clock) -> None:
    clock.timers.set("stays", 30 * 60 * 1000, nothing)
    gone: list[weakref.ref[Guest]] = []
    for at in range(1000):
        clock.now_ms = at
        guest = Guest()
        gone.append(weakref.ref(guest))
        clock.timers.set(guest, 5 * 60 * 1000, nothing)
        clock.timers.cancel(guest)
        del guest

    assert sum(guest() is not None for guest in gone) <= len(clock.timers)
    clock.now_ms = 30 * 60 * 1000
    assert clock.due() == ["stays"]


def test_a_timer_that_was_moved_later_expires_later_without_another_heap_entry(clock: Clock) -> None:
    for at in range(1000):
        clock.now_ms = at
        clock.timers.set("session", 5000, nothing)

    assert clock.alarms == 1
    clock.now_ms = 5500
    assert clock.due() == []
    assert clock.timers.next_ms == 5999
    clock.now_ms = 5999
    assert clock.due() == ["session"]


def test_a_timer_that_was_moved_earlier_expires_earlier_and_once(clock: Clock) -> None:
    clock.timers.set("a", 100, nothing)
    clock.timers.set("a", 10, nothing)

    assert clock.alarms == 2
    clock.now_ms = 200
    assert clock.due() == ["a"]


def test_a_cancelled_timer_does_not_run_and_can_be_set_again(clock: Clock) -> None:
    clock.timers.set("a", 10, nothing)
    clock.timers.cancel("a")
    clock.now_ms = 5
    clock.timers.set("a", 10, nothing)

    clock.now_ms = 14
    assert clock.due() == []
    clock.now_ms = 15
    assert clock.due() == ["a"]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["set", "cancel", "pass"]), st.integers(0, 20)),
        max_size=60,
    )
)
def test_timers_expire_as_in_a_plain_list(steps: list[tuple[int, str, int]]) -> None:
    clock = Clock()
    expected: dict[object, tuple[int, Action]] = {}
    for key, step, amount in steps:
        if step == "set":
            clock.timers.set(key, amount, nothing)
            expected[key] = (clock.now_ms + amount, nothing)
        elif step == "cancel":
            clock.timers.cancel(key)
            expected.pop(key, None)
        else:
            clock.now_ms += amount
            due = sorted(clock.due(), key=str)
            assert due == sorted((k for k, (at, _) in expected.items() if at <= clock.now_ms), key=str)
            for each in due:
                del expected[each]
        assert len(clock.timers) == len(expected)
        next_ms = clock.timers.next_ms
        assert not expected or (next_ms is not None and next_ms <= min(at for at, _ in expected.values()))
