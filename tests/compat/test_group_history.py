"""The check of group histories finds everything that a group must never do."""

from __future__ import annotations

import pytest

from compat.groups.history import Event, faults, is_shared

WRITTEN = {(0, 0): 10, (0, 1): 11, (1, 0): 12}


def event(
    at: int, member: str, kind: str, *partitions: int, records: tuple[tuple[int, int, int], ...] = ()
) -> Event:
    return Event(member, at, kind, partitions, records)


ALL_READ = event(2, "a", "read", records=((0, 0, 10), (0, 1, 11), (1, 0, 12)))
GIVEN = event(1, "a", "assigned", 0, 1)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([GIVEN, ALL_READ], []),
        ([GIVEN, ALL_READ, event(3, "a", "revoked", 1), event(4, "b", "assigned", 1)], []),
        ([GIVEN, ALL_READ, event(3, "a", "crashed"), event(4, "b", "assigned", 0, 1)], []),
        ([GIVEN], ["3 of 3 records were not delivered"]),
        ([GIVEN, ALL_READ, event(3, "a", "read", records=((0, 1, 11),))], ["1 records were delivered twice"]),
        (
            [GIVEN, event(2, "a", "read", records=((0, 0, 10), (0, 1, 99), (1, 0, 12)))],
            ["1 records differ from what was written"],
        ),
        ([GIVEN, ALL_READ, event(3, "b", "assigned", 1)], ["partition 1 went to b while a owned it"]),
        ([event(1, "a", "assigned", 0), ALL_READ], ["a read of partitions [1], which it did not own"]),
        ([GIVEN, ALL_READ, Event("a", 3, "failed", error="fenced")], ["a failed: fenced"]),
    ],
    ids=["all well", "handed on", "taken over", "lost", "twice", "wrong", "shared", "not its own", "failed"],
)
def test_the_check_finds(events: list[Event], expected: list[str]) -> None:
    messages = faults(events, WRITTEN, is_exactly_once=True)
    assert len(messages) == len(expected)
    for text, fault in zip(expected, messages, strict=True):
        assert text in fault


def test_a_late_report_of_an_earlier_event_is_no_overlap() -> None:
    """Lines of two processes arrive in any order; their timestamps give the right one."""
    events = [GIVEN, ALL_READ, event(9, "b", "assigned", 0, 1), event(8, "a", "revoked", 0, 1)]
    assert faults(events, WRITTEN, is_exactly_once=True) == []


def test_a_group_is_shared_when_all_members_read_since_the_last_change() -> None:
    events = [event(1, "a", "assigned", 0), event(2, "b", "assigned", 1)]
    assert not is_shared(events, ["a", "b"], 2)
    events += [event(3, member, "read", records=((0, 0, 0),)) for member in ("a", "b")]
    assert is_shared(events, ["a", "b"], 2)
    assert not is_shared(events, ["a", "b"], 3)
    assert not is_shared(events, ["a", "b", "c"], 2)
