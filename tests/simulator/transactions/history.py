"""What clients of transactions did and saw, as plain values.

Clients record it during a simulation; afterwards `checker` needs nothing else. So tests of the checker can write
histories by hand. Every value is written once, by one transaction, so a reader knows where it comes from. A record
outside of a transaction is a transaction of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

Partition = tuple[str, int]
"""Topic and index. Topics of a history are never deleted."""


class Outcome(Enum):
    OPEN = auto()
    """It has not ended. Unless a commit was requested, it must not be seen."""
    COMMITTED = auto()
    """The commit was acknowledged."""
    ABORTED = auto()
    """The abort was acknowledged, or the commit rejected for good."""
    UNKNOWN = auto()
    """A commit was requested but not answered: committed or aborted, but as a whole."""


@dataclass(slots=True)
class Write:
    partition: Partition
    value: bytes
    offset: int | None = None
    """Its offset; None if not acknowledged."""


class Seen(NamedTuple):
    """A record that a client read."""

    partition: Partition
    offset: int
    value: bytes


class Advance(NamedTuple):
    """A group moves from one offset of a partition to another, in a transaction."""

    group_id: str
    partition: Partition
    offset: int
    next_offset: int


@dataclass(slots=True, eq=False)
class Transaction:
    name: str
    writes: list[Write] = field(default_factory=list)
    reads: list[Seen] = field(default_factory=list)
    """What the transaction read before it ended."""
    advances: list[Advance] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN
    commit_asked_at: float = math.inf
    """When a commit was first sent: nothing of it may be seen earlier."""


@dataclass(slots=True, eq=False)
class Poll:
    """One response to a reader about one partition. The polls of a reader are in order."""

    reader: str
    is_committed: bool
    """Whether the reader uses read_committed."""
    partition: Partition
    offset: int
    """The fetch offset."""
    next_offset: int
    """The next fetch offset; everything before was passed."""
    records: Sequence[Seen]
    at: float
    """When the response arrived."""


@dataclass(slots=True, eq=False)
class OffsetRead:
    """A group's committed offset, fetched with require_stable."""

    group_id: str
    partition: Partition
    offset: int
    """-1: none."""
    transaction: str | None
    """The name of the transaction that committed it."""
    at: float


@dataclass(slots=True, eq=False)
class History:
    """A history is complete when every transaction has ended and all partitions and offsets were read once more."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    """By name, in the order in which they began."""
    polls: list[Poll] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)

    def begin(self, name: str) -> Transaction:
        assert name not in self.transactions, f"transaction {name} exists already"
        transaction = self.transactions[name] = Transaction(name)
        return transaction

    def count(self, outcome: Outcome) -> int:
        return sum(transaction.outcome is outcome for transaction in self.transactions.values())
