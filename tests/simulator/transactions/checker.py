"""Checks a history: a pure function from what clients did and saw to anomalies.

It follows Jepsen's workload for Kafka and uses its terms. It does not ask for what Kafka does not promise: a reader
may see a transaction in one partition before it sees it in another, and writes of two transactions may be in different
order in different partitions (write cycles, G0). Kafka promises that in the end all of a transaction is there or
nothing, that read_committed never returns open or aborted records, and that offsets are committed with the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from simulator.transactions.cycles import find_cycle
from simulator.transactions.history import (
    Advance,
    History,
    OffsetRead,
    Outcome,
    Partition,
    Poll,
    Transaction,
    Write,
)

MESSAGE_VALUES_MAX = 5


class Kind(Enum):
    LOST_WRITE = "lost write"
    """A commit was acknowledged, but one of its records is never returned."""
    ABORTED_READ = "aborted read"
    INTERMEDIATE_READ = "intermediate read"
    """A record was returned before its commit was requested."""
    TORN = "torn transaction"
    """The outcome is unknown, and only a part of the transaction is there."""
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSET = "inconsistent offset"
    """An offset has two records, or a record has another offset than was acknowledged."""
    PHANTOM = "phantom"
    """A record that no client wrote there."""
    SKIPPING_POLL = "poll that skips"
    NONMONOTONIC_POLL = "nonmonotonic poll"
    OFFSETS_DIVERGED = "offsets diverge from records"
    CONSUMED_TWICE = "input consumed twice"
    NEVER_CONSUMED = "input never consumed"
    CIRCULAR_FLOW = "circular information flow"


class Anomaly(NamedTuple):
    kind: Kind
    message: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"


@dataclass(slots=True)
class _Facts:
    """The history, indexed for the checks."""

    writers: dict[bytes, tuple[Transaction, Write]] = field(default_factory=dict)
    committed: dict[Partition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """Records by offset, as read_committed readers saw them."""
    log_records: dict[Partition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """Records by offset, as any reader saw them or an acknowledgement named them."""
    seen: set[bytes] = field(default_factory=set)
    """Values that read_committed readers saw."""
    read_transactions: set[str] = field(default_factory=set)
    """Transactions whose committed offsets were read."""

    def is_visible(self, transaction: Transaction) -> bool:
        if transaction.outcome is Outcome.UNKNOWN:
            return transaction.name in self.read_transactions or any(
                write.value in self.seen for write in transaction.writes
            )
        return transaction.outcome is Outcome.COMMITTED


def find_anomalies(history: History) -> list[Anomaly]:
    """All anomalies, in the order of the checks; empty if the history keeps Kafka's promises."""
    facts = _gather(history)
    return [
        *_check_offsets(history, facts),
        *_check_reads(history, facts),
        *_check_atomicity(history, facts),
        *_check_polls(history, facts),
        *_check_committed_offsets(history, facts),
        *_check_consumption(history, facts),
        *_check_flow(history, facts),
    ]


def _gather(history: History) -> _Facts:
    facts = _Facts()
    for transaction in history.transactions.values():
        for write in transaction.writes:
            assert write.value not in facts.writers, f"{write.value!r} was written twice by its transaction"
            facts.writers[write.value] = transaction, write
            if write.offset is not None:
                facts.log_records[write.partition].setdefault(write.offset, write.value)
    for poll in history.polls:
        for record in poll.records:
            facts.log_records[poll.partition].setdefault(record.offset, record.value)
            if poll.is_committed:
                facts.committed[poll.partition].setdefault(record.offset, record.value)
                facts.seen.add(record.value)
    facts.read_transactions = {
        read.transaction for read in history.offset_reads if read.transaction is not None
    }
    return facts


def _check_offsets(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Each value has one offset, each offset one value, and only its own transaction wrote it."""
    offsets: dict[bytes, tuple[Partition, int]] = {}
    for partition, log_records in facts.log_records.items():
        for offset, value in sorted(log_records.items()):
            author = facts.writers.get(value)
            if author is None or author[1].partition != partition:
                yield Anomaly(Kind.PHANTOM, f"{_name(partition)} has {value!r} at {offset}")
            elif value in offsets:
                yield Anomaly(
                    Kind.DUPLICATE,
                    f"{value!r} is in {_name(partition)} at {offsets[value][1]} and at {offset}",
                )
            offsets.setdefault(value, (partition, offset))
    for transaction in history.transactions.values():
        for write in transaction.writes:
            if write.offset is not None:
                yield from _check_offset(facts, write.partition, write.offset, write.value, "acknowledged")
    for poll in history.polls:
        for record in poll.records:
            yield from _check_offset(
                facts, poll.partition, record.offset, record.value, f"returned to {poll.reader}"
            )


def _check_offset(
    facts: _Facts, partition: Partition, offset: int, value: bytes, how: str
) -> Iterator[Anomaly]:
    known = facts.log_records[partition][offset]
    if known != value:
        yield Anomaly(
            Kind.INCONSISTENT_OFFSET,
            f"{_name(partition)} has {known!r} at {offset}, and {value!r} was {how} there",
        )


def _check_reads(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Readers of committed records get no others."""
    for poll in history.polls:
        for record in poll.records if poll.is_committed else ():
            author = facts.writers.get(record.value)
            if author is None:
                continue  # a phantom
            transaction = author[0]
            message = f"{poll.reader} read {record.value!r} of {transaction.name} at {poll.at:.6f}"
            if transaction.outcome is Outcome.ABORTED:
                yield Anomaly(Kind.ABORTED_READ, message)
            elif poll.at < transaction.commit_asked_at:
                yield Anomaly(Kind.INTERMEDIATE_READ, message)


def _check_atomicity(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """In the end all of a transaction is there, or nothing."""
    for transaction in history.transactions.values():
        if not facts.is_visible(transaction):
            continue
        missing = [write.value for write in transaction.writes if write.value not in facts.seen]
        if missing:
            kind = Kind.LOST_WRITE if transaction.outcome is Outcome.COMMITTED else Kind.TORN
            yield Anomaly(kind, f"{transaction.name} is visible, but not {missing[:MESSAGE_VALUES_MAX]}")


def _check_polls(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """A reader goes through a partition once, without skipping."""
    last: dict[tuple[str, Partition], Poll] = {}
    for poll in history.polls:
        key = poll.reader, poll.partition
        before = last.get(key)
        start_offset = poll.offset if before is None else before.next_offset
        if poll.offset < start_offset:
            yield Anomaly(
                Kind.NONMONOTONIC_POLL,
                f"{poll.reader} was at {start_offset} of {_name(poll.partition)}, but continued at {poll.offset}",
            )
        offsets = [record.offset for record in poll.records]
        if any(
            later <= earlier for earlier, later in zip([poll.offset - 1, *offsets], offsets, strict=False)
        ):
            yield Anomaly(
                Kind.NONMONOTONIC_POLL,
                f"{poll.reader} fetched from {poll.offset} of {_name(poll.partition)}, but got {offsets}",
            )
        known = (facts.committed if poll.is_committed else facts.log_records)[poll.partition]
        given = set(offsets)
        skipped = [at for at in range(start_offset, poll.next_offset) if at in known and at not in given]
        if skipped:
            yield Anomaly(
                Kind.SKIPPING_POLL,
                f"{poll.reader} went from {start_offset} to {poll.next_offset} of {_name(poll.partition)} at"
                f" {poll.at:.6f}, without {skipped}: {[known[at] for at in skipped[:MESSAGE_VALUES_MAX]]}",
            )
        last[key] = poll


def _check_committed_offsets(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Committed offsets come from committed transactions only."""
    last: dict[tuple[str, Partition], OffsetRead] = {}
    for read in history.offset_reads:
        last[read.group_id, read.partition] = read
        if read.transaction is None:
            continue
        transaction = history.transactions.get(read.transaction)
        message = (
            f"{read.group_id} is at {read.offset} of {_name(read.partition)}, committed by {read.transaction}"
        )
        if transaction is None:
            yield Anomaly(Kind.PHANTOM, message)
        elif transaction.outcome is Outcome.ABORTED:
            yield Anomaly(Kind.OFFSETS_DIVERGED, f"{message}, which was aborted")
        elif read.at < transaction.commit_asked_at:
            yield Anomaly(Kind.INTERMEDIATE_READ, f"{message}, which is open")
    for transaction, advance in _visible_advances(history, facts):
        found = last.get((advance.group_id, advance.partition))
        if found is not None and found.offset < advance.next_offset:
            yield Anomaly(
                Kind.OFFSETS_DIVERGED,
                f"{transaction.name} took {advance.group_id} to {advance.next_offset} of"
                f" {_name(advance.partition)}, but in the end the group is at {found.offset}",
            )


def _check_consumption(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Each record before a group's offset was consumed by exactly one committed transaction."""
    ranges: dict[tuple[str, Partition], list[tuple[Advance, Transaction]]] = defaultdict(list)
    for transaction, advance in _visible_advances(history, facts):
        ranges[advance.group_id, advance.partition].append((advance, transaction))
    for (group_id, partition), taken in ranges.items():
        taken.sort(key=lambda each: (each[0].offset, each[0].next_offset))
        known = facts.committed[partition]
        reached, by = 0, "nobody"
        for advance, transaction in taken:
            twice = [at for at in range(advance.offset, min(reached, advance.next_offset)) if at in known]
            if twice:
                yield Anomaly(
                    Kind.CONSUMED_TWICE,
                    f"{group_id} consumed {twice} of {_name(partition)} in {by} and in {transaction.name}",
                )
            left = [at for at in range(reached, advance.offset) if at in known]
            if left:
                yield Anomaly(
                    Kind.NEVER_CONSUMED,
                    f"{group_id} skipped {left} of {_name(partition)}, between {by} and {transaction.name}",
                )
            if advance.next_offset > reached:
                reached, by = advance.next_offset, transaction.name


def _visible_advances(history: History, facts: _Facts) -> Iterator[tuple[Transaction, Advance]]:
    for transaction in history.transactions.values():
        if facts.is_visible(transaction):
            for advance in transaction.advances:
                yield transaction, advance


def _check_flow(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """No transaction depends on itself (G1c). Reading a record means depending on its transaction."""
    depends_on: dict[str, list[str]] = {}
    for transaction in history.transactions.values():
        if facts.is_visible(transaction):
            authors = [facts.writers.get(record.value) for record in transaction.reads]
            names = {author[0].name: None for author in authors if author is not None}
            depends_on[transaction.name] = [name for name in names if name != transaction.name]
            if transaction.name in names:
                yield Anomaly(Kind.CIRCULAR_FLOW, f"{transaction.name} read its own records")
    cycle = find_cycle(depends_on)
    if cycle:
        yield Anomaly(Kind.CIRCULAR_FLOW, " read records of ".join(cycle))


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
