"""The committed offsets of one group, and the check that none goes back.

The offset of each partition is a register that several members write and read concurrently. An acknowledged commit
stays until one that may have come later replaces it. A commit without a response may be made or not, but only until
shortly after the client gave up: what the node has not received by then it never receives. An offset that was read
counts as acknowledged. Every commit has unique metadata (`note`) that identifies it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.groups.ownership import UNDER_WAY_S, Partition
from simulator.simulation import BrokenPromise


@dataclass(slots=True, eq=False)
class Commit:
    note: str
    offset: int
    sent_at: float
    done_at: float = math.inf
    """It was not made after this moment."""
    is_promised: bool = False
    connection: str = ""
    """Commits of one connection are made in the order in which they were sent, even if several are in flight."""
    number: int = 0
    """Its position among the commits of the connection."""


class CommittedOffsets:
    """All partitions of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.acknowledged_count = 0
        self._commits: dict[Partition, dict[str, Commit]] = {}
        """By note."""
        self._power_lost_at = -math.inf
        """In a log that is not flushed, earlier responses promise nothing."""

    def partitions(self) -> list[Partition]:
        return list(self._commits)

    # Commits

    def sent(
        self,
        partition: Partition,
        offset: int,
        note: str,
        *,
        now: float,
        connection: str = "",
        number: int = 0,
    ) -> Commit:
        commit = Commit(note, offset, now, connection=connection, number=number)
        self._of(partition)[note] = commit
        return commit

    def acknowledged(self, commit: Commit, *, now: float) -> None:
        self.acknowledged_count += 1
        self._promise(commit, asked_at=commit.sent_at, now=now)

    def given_up(self, commit: Commit, *, now: float) -> None:
        """The response was lost, or leaves the outcome open."""
        commit.done_at = min(commit.done_at, now + UNDER_WAY_S)

    def refused(self, partition: Partition, commit: Commit) -> None:
        """It was not made, and must not be seen."""
        self._of(partition).pop(commit.note, None)

    def power_lost(self, *, now: float) -> None:
        """The log was not flushed: it may have lost the last commits."""
        self._power_lost_at = now
        for commits in self._commits.values():
            for commit in commits.values():
                commit.done_at = min(commit.done_at, now)
                commit.is_promised = False

    # Reads

    def found(
        self, partition: Partition, offset: int, note: str | None, *, asked_at: float, now: float
    ) -> None:
        """A client that sent its request at `asked_at` got this offset; -1: none."""
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
                f"{_describe(commit)} was returned, but {_describe(later[-1])} was acknowledged after it",
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
    return one.connection != "" and one.connection == other.connection and one.number > other.number


def _describe(commit: Commit) -> str:
    return f"{commit.offset} ({commit.note})"
