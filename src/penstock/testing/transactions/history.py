"""What clients of transactions did and were told, as plain values.

Clients write it down while a simulation runs; `checker` reads it afterwards and needs nothing else. So a history can
also be made by hand, which is how the checker itself is tested. Every value is written once, by one transaction:
whoever reads it knows where it comes from. A record outside of transactions is a transaction of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

Partition = tuple[str, int]
"""Topic and index; in these histories topics stay."""


class Outcome(Enum):
    OPEN = auto()
    """Nobody has ended it. Unless somebody asked for a commit, it must not be seen."""
    COMMITTED = auto()
    """The commit was acknowledged."""
    ABORTED = auto()
    """The abort was acknowledged, or the commit refused for good."""
    UNKNOWN = auto()
    """A commit was asked for and not answered: it may be either, but wholly."""


@dataclass(slots=True)
class Write:
    partition: Partition
    value: bytes
    offset: int | None = None
    """Where it stands; None while nobody has been told."""


class Seen(NamedTuple):
    """A record that somebody was given."""

    partition: Partition
    offset: int
    value: bytes


class Advance(NamedTuple):
    """A group goes on from one offset of a partition to another, in a transaction."""

    group_id: str
    partition: Partition
    offset: int
    next_offset: int


@dataclass(slots=True, eq=False)
class Transaction:
    name: str
    writes: list[Write] = field(default_factory=list)
    reads: list[Seen] = field(default_factory=list)
    """What it was given by the brokers before it ended."""
    advances: list[Advance] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN
    commit_asked_at: float = math.inf
    """When a commit was first sent: nothing of it may be seen before."""


@dataclass(slots=True, eq=False)
class Poll:
    """One answer to a reader about one partition. Polls of a reader follow one another."""

    reader: str
    is_committed: bool
    """Whether the reader wants nothing but what is committed."""
    partition: Partition
    offset: int
    """Where it asked to begin."""
    next_offset: int
    """Where it goes on; everything before has been passed."""
    records: Sequence[Seen]
    at: float
    """When the answer was there."""


@dataclass(slots=True, eq=False)
class OffsetRead:
    """A group's committed offset, as somebody was told who asked for stable ones."""

    group_id: str
    partition: Partition
    offset: int
    """-1 where there is none."""
    transaction: str | None
    """The name of the one that committed it."""
    at: float


@dataclass(slots=True, eq=False)
class History:
    """It is complete when everything has ended and somebody has read all partitions and offsets once more."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    """By name, in the order in which they began."""
    polls: list[Poll] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)

    def begin(self, name: str) -> Transaction:
        assert name not in self.transactions, f"there is a transaction {name} already"
        transaction = self.transactions[name] = Transaction(name)
        return transaction

    def count(self, outcome: Outcome) -> int:
        return sum(transaction.outcome is outcome for transaction in self.transactions.values())
