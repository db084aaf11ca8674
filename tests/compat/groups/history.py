"""What the members of a group reported, and checks of what a group promises.

A member reports its assigned and revoked partitions, and the records that it read. All members run on this machine,
so times are of one clock. A partition counts as owned from the start of the call that assigns it to the end of the
call that revokes it: the longest time for which a member can believe that it owns it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from harness.load import Offset

SHOWN_COUNT = 5
WAIT_SECONDS = 60.0  # on a busy machine; usually it takes a second or two
ENDED = {"left", "crashed"}
OWNERSHIP = {"assigned", "revoked", "lost"} | ENDED


@dataclass(frozen=True, slots=True)
class Event:
    """One report of a member. `kind` is assigned, revoked, lost, read, left, crashed or failed."""

    member: str
    at_us: int
    kind: str
    partitions: tuple[int, ...] = ()
    records: tuple[tuple[int, int, int], ...] = ()
    """(partition, offset, number), in the order of delivery."""
    error: str = ""

    @classmethod
    def parse(cls, event: Mapping[str, Any]) -> Event:
        return cls(
            event["member"],
            event["at"],
            event["event"],
            tuple(event.get("partitions", ())),
            tuple((partition, offset, number) for partition, offset, number in event.get("records", ())),
            event.get("error", ""),
        )


class History:
    """All reports of the members of one group, as they arrive."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def add(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events)

    def wait_until(
        self,
        is_so: Callable[[list[Event]], bool],
        what: str | Callable[[list[Event]], str],
        *,
        seconds: float = WAIT_SECONDS,
    ) -> None:
        """Return as soon as `is_so(events)` is true; fail if a member failed, or at the time limit."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not is_so(self._events):
                left = deadline - time.monotonic()
                failed = [event for event in self._events if event.kind == "failed"]
                if failed or left <= 0:
                    what = what if isinstance(what, str) else what(self._events)
                    assert not failed, f"until {what}: {failed[0].member} failed: {failed[0].error}"
                    last = [_brief(event) for event in self._events[-10:]]
                    pytest.fail(
                        f"not within {seconds:.0f} s: {what}; owned {owned(self._events)}; last {last}"
                    )
                self._changed.wait(left)


def owned(events: Iterable[Event]) -> dict[str, set[int]]:
    """What each member owns after these events."""
    result: dict[str, set[int]] = defaultdict(set)
    for event in events:
        if event.kind == "assigned":
            result[event.member] |= set(event.partitions)
        elif event.kind in ("revoked", "lost"):
            result[event.member] -= set(event.partitions)
        elif event.kind in ENDED:
            result.pop(event.member, None)
    return dict(result)


def is_shared(events: list[Event], members: Iterable[str], partition_count: int) -> bool:
    """Whether exactly these members share all partitions, and each has read since the last change."""
    now = {member: partitions for member, partitions in owned(events).items() if partitions}
    if set(now) != set(members) or sum(map(len, now.values())) != partition_count:
        return False
    since = max(at for at, event in enumerate(events) if event.kind in OWNERSHIP)
    return {event.member for event in events[since:] if event.kind == "read"} == set(members)


def delivered(events: Iterable[Event]) -> dict[Offset, list[int]]:
    """The numbers delivered, by partition and offset; several if a record was delivered again."""
    result: dict[Offset, list[int]] = defaultdict(list)
    for event in events:
        for partition, offset, number in event.records:
            result[partition, offset].append(number)
    return result


def faults(events: list[Event], written: Mapping[Offset, int], *, is_exactly_once: bool) -> list[str]:
    """Everything that a group must never do; empty if there is nothing."""
    return [
        *delivery_faults(events, written, is_exactly_once=is_exactly_once),
        *shared_partitions(events),
        *unowned_reads(events),
    ]


def delivery_faults(
    events: list[Event], written: Mapping[Offset, int], *, is_exactly_once: bool
) -> list[str]:
    """Records that were not delivered correctly."""
    found = delivered(events)
    result = [f"{event.member} failed: {event.error}" for event in events if event.kind == "failed"]
    missing = sorted(written.keys() - found.keys())
    if missing:
        result.append(f"{len(missing)} of {len(written)} records were not delivered: {missing[:SHOWN_COUNT]}")
    wrong = [place for place, numbers in found.items() if written.get(place) != numbers[0]]
    if wrong:
        result.append(f"{len(wrong)} records differ from what was written: {wrong[:SHOWN_COUNT]}")
    twice = sorted(place for place, numbers in found.items() if len(numbers) > 1)
    if is_exactly_once and twice:
        result.append(f"{len(twice)} records were delivered twice: {twice[:SHOWN_COUNT]}")
    return result


def shared_partitions(events: list[Event]) -> list[str]:
    """Partitions that two members owned at a time."""
    owners: dict[int, str] = {}
    result = []
    for event in sorted(events, key=lambda event: event.at_us):
        if event.kind in ENDED:
            owners = {partition: owner for partition, owner in owners.items() if owner != event.member}
        for partition in event.partitions:
            owner = owners.get(partition)
            if event.kind == "assigned":
                if owner is not None and owner != event.member:
                    result.append(f"partition {partition} went to {event.member} while {owner} owned it")
                owners[partition] = event.member
            elif owner == event.member:
                del owners[partition]
    return result


def unowned_reads(events: list[Event]) -> list[str]:
    """Members that read from partitions that they did not own."""
    owners: dict[str, set[int]] = defaultdict(set)
    result = []
    for event in events:
        if event.kind == "assigned":
            owners[event.member] |= set(event.partitions)
        elif event.kind in ("revoked", "lost"):
            owners[event.member] -= set(event.partitions)
        elif strange := {partition for partition, _, _ in event.records} - owners[event.member]:
            result.append(f"{event.member} read of partitions {sorted(strange)}, which it did not own")
    return result[:SHOWN_COUNT]


def _brief(event: Event) -> str:
    what = f"{len(event.records)} records" if event.records else str(list(event.partitions))
    return f"{event.member} {event.kind} {what} {event.error}".rstrip()
