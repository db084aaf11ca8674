"""What was promised about the committed offsets of one group, and the complaint when one goes back.

Each partition's offset is a register that several members write and read, at times at once. A commit that was
acknowledged is there, until one that may have come after it takes its place. One that got no answer is there or not,
but not later than a moment after it was given up: what the node did not get until then it never gets. An
offset that was read counts as acknowledged. Every commit carries a note of its own, so that it is known again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.testing.groups.claims import UNDER_WAY_S, Partition
from penstock.testing.simulation import BrokenPromise


@dataclass(slots=True, eq=False)
class Commit:
    note: str
    offset: int
    sent_at: float
    done_at: float = math.inf
    """It was not made after this moment."""
    is_promised: bool = False
    lane: str = ""
    """Commits of one lane are made in the order in which they were sent, even if several are under way."""
    number: int = 0
    """Its place in the lane."""


class CommittedOffsets:
    """All partitions of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.acknowledged_count = 0
        self._commits: dict[Partition, dict[str, Commit]] = {}
        """By their notes."""
        self._power_lost_at = -math.inf
        """What was answered before then, in a log that is not flushed, promises nothing."""

    def partitions(self) -> list[Partition]:
        return list(self._commits)

    # Commits

    def sent(
        self, partition: Partition, offset: int, note: str, *, now: float, lane: str = "", number: int = 0
    ) -> Commit:
        commit = Commit(note, offset, now, lane=lane, number=number)
        self._of(partition)[note] = commit
        return commit

    def acknowledged(self, commit: Commit, *, now: float) -> None:
        self.acknowledged_count += 1
        self._promise(commit, asked_at=commit.sent_at, now=now)

    def given_up(self, commit: Commit, *, now: float) -> None:
        """No answer came, or one that leaves open what became of it."""
        commit.done_at = min(commit.done_at, now + UNDER_WAY_S)

    def refused(self, partition: Partition, commit: Commit) -> None:
        """It was not made, and must not be seen."""
        self._of(partition).pop(commit.note, None)

    def power_lost(self, *, now: float) -> None:
        """The log was not flushed: its end may be gone, and with it the last commits."""
        self._power_lost_at = now
        for commits in self._commits.values():
            for commit in commits.values():
                commit.done_at = min(commit.done_at, now)
                commit.is_promised = False

    # Reads

    def found(
        self, partition: Partition, offset: int, note: str | None, *, asked_at: float, now: float
    ) -> None:
        """Somebody who asked then was told this; offset -1 where there is none."""
        commits = self._of(partition)
        promised = [each for each in commits.values() if each.is_promised and each.done_at < asked_at]
        if offset < 0:
            if promised:
                raise self._broken(
                    partition, f"there is no offset, but {_describe(promised[-1])} was acknowledged"
                )
            return
        commit = commits.get(note or "")
        if commit is None or commit.offset != offset:
            raise self._broken(partition, f"offset {offset} with the note {note!r} was never committed")
        later = [each for each in promised if each.sent_at > commit.done_at or _follows(each, commit)]
        if later:
            raise self._broken(
                partition,
                f"{_describe(commit)} is told, but {_describe(later[-1])} was acknowledged after it",
            )
        self._promise(commit, asked_at=asked_at, now=now)

    def _promise(self, commit: Commit, *, asked_at: float, now: float) -> None:
        commit.done_at = min(commit.done_at, now)
        commit.is_promised |= asked_at > self._power_lost_at

    def _of(self, partition: Partition) -> dict[str, Commit]:
        return self._commits.setdefault(partition, {})

    def _broken(self, partition: Partition, complaint: str) -> BrokenPromise:
        return BrokenPromise(f"offsets of group {self.group_id}, partition {partition[1]}: {complaint}")


def _follows(one: Commit, other: Commit) -> bool:
    return one.lane != "" and one.lane == other.lane and one.number > other.number


def _describe(commit: Commit) -> str:
    return f"{commit.offset} ({commit.note})"
