"""The judge of a history: a pure function from what clients did and were told to what must never be.

After the workload of Jepsen for Kafka, and in its words where it has some. What Kafka does not promise is not asked
for: a reader may see one partition's part of a transaction before another's, and writes of two transactions may stand
in different orders in different partitions (write cycles, G0). It promises that in the end all of it is there or
nothing, that nobody who wants committed records sees what is open or aborted, and that offsets go with the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from penstock.testing.transactions.flow import find_cycle
from penstock.testing.transactions.history import (
    Advance,
    History,
    OffsetRead,
    Outcome,
    Partition,
    Poll,
    Transaction,
    Write,
)

WORDS_VALUES_MAX = 5


class Kind(Enum):
    LOST_WRITE = "lost write"
    """A commit was acknowledged, and nobody is ever given one of its records."""
    ABORTED_READ = "aborted read"
    INTERMEDIATE_READ = "intermediate read"
    """Something was seen before anybody had asked to commit it."""
    TORN = "torn transaction"
    """Nobody knows whether it was committed, and a part of it is there."""
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSET = "inconsistent offset"
    """One offset has two records, or a record another offset than was acknowledged."""
    PHANTOM = "phantom"
    """A record that nobody wrote there."""
    SKIPPING_POLL = "poll that skips"
    NONMONOTONIC_POLL = "nonmonotonic poll"
    OFFSETS_APART = "offsets apart from records"
    CONSUMED_TWICE = "input consumed twice"
    NEVER_CONSUMED = "input never consumed"
    CIRCULAR_FLOW = "circular information flow"


class Anomaly(NamedTuple):
    kind: Kind
    words: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.words}"


@dataclass(slots=True)
class _Facts:
    """A history from where the checks look at it."""

    writers: dict[bytes, tuple[Transaction, Write]] = field(default_factory=dict)
    committed: dict[Partition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """What stands where for those who read committed records: as they saw it."""
    standing: dict[Partition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """What stands where at all, as anybody saw it or was told."""
    seen: set[bytes] = field(default_factory=set)
    """By readers of committed records."""
    told: set[str] = field(default_factory=set)
    """Transactions whose offsets somebody was told."""

    def is_visible(self, transaction: Transaction) -> bool:
        if transaction.outcome is Outcome.UNKNOWN:
            return transaction.name in self.told or any(
                write.value in self.seen for write in transaction.writes
            )
        return transaction.outcome is Outcome.COMMITTED


def find_anomalies(history: History) -> list[Anomaly]:
    """All there are, in the order of the checks; none in a history that keeps Kafka's promises."""
    facts = _gather(history)
    return [
        *_check_places(history, facts),
        *_check_reads(history, facts),
        *_check_wholeness(history, facts),
        *_check_polls(history, facts),
        *_check_told_offsets(history, facts),
        *_check_consumption(history, facts),
        *_check_flow(history, facts),
    ]


def _gather(history: History) -> _Facts:
    facts = _Facts()
    for transaction in history.transactions.values():
        for write in transaction.writes:
            assert write.value not in facts.writers, f"{write.value!r} was written twice by its author"
            facts.writers[write.value] = transaction, write
            if write.offset is not None:
                facts.standing[write.partition].setdefault(write.offset, write.value)
    for poll in history.polls:
        for record in poll.records:
            facts.standing[poll.partition].setdefault(record.offset, record.value)
            if poll.is_committed:
                facts.committed[poll.partition].setdefault(record.offset, record.value)
                facts.seen.add(record.value)
    facts.told = {read.transaction for read in history.offset_reads if read.transaction is not None}
    return facts


def _check_places(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Every value has one place, every place one value, and nobody but its author wrote it."""
    places: dict[bytes, tuple[Partition, int]] = {}
    for partition, standing in facts.standing.items():
        for offset, value in sorted(standing.items()):
            author = facts.writers.get(value)
            if author is None or author[1].partition != partition:
                yield Anomaly(Kind.PHANTOM, f"{_name(partition)} has {value!r} at {offset}")
            elif value in places:
                yield Anomaly(
                    Kind.DUPLICATE,
                    f"{value!r} is in {_name(partition)} at {places[value][1]} and at {offset}",
                )
            places.setdefault(value, (partition, offset))
    for transaction in history.transactions.values():
        for write in transaction.writes:
            if write.offset is not None:
                yield from _check_place(facts, write.partition, write.offset, write.value, "acknowledged")
    for poll in history.polls:
        for record in poll.records:
            yield from _check_place(
                facts, poll.partition, record.offset, record.value, f"given to {poll.reader}"
            )


def _check_place(
    facts: _Facts, partition: Partition, offset: int, value: bytes, how: str
) -> Iterator[Anomaly]:
    known = facts.standing[partition][offset]
    if known != value:
        yield Anomaly(
            Kind.INCONSISTENT_OFFSET,
            f"{_name(partition)} has {known!r} at {offset}, and {value!r} was {how} there",
        )


def _check_reads(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Who reads committed records is given no others."""
    for poll in history.polls:
        for record in poll.records if poll.is_committed else ():
            author = facts.writers.get(record.value)
            if author is None:
                continue  # a phantom
            transaction = author[0]
            words = f"{poll.reader} was given {record.value!r} of {transaction.name} at {poll.at:.6f}"
            if transaction.outcome is Outcome.ABORTED:
                yield Anomaly(Kind.ABORTED_READ, words)
            elif poll.at < transaction.commit_asked_at:
                yield Anomaly(Kind.INTERMEDIATE_READ, words)


def _check_wholeness(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """In the end a transaction is there or not."""
    for transaction in history.transactions.values():
        if not facts.is_visible(transaction):
            continue
        missing = [write.value for write in transaction.writes if write.value not in facts.seen]
        if missing:
            kind = Kind.LOST_WRITE if transaction.outcome is Outcome.COMMITTED else Kind.TORN
            yield Anomaly(
                kind, f"{transaction.name} is there, but never seen is {missing[:WORDS_VALUES_MAX]}"
            )


def _check_polls(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """A reader goes through a partition once, and passes over nothing."""
    last: dict[tuple[str, Partition], Poll] = {}
    for poll in history.polls:
        key = poll.reader, poll.partition
        before = last.get(key)
        start_offset = poll.offset if before is None else before.next_offset
        if poll.offset < start_offset:
            yield Anomaly(
                Kind.NONMONOTONIC_POLL,
                f"{poll.reader} was at {start_offset} of {_name(poll.partition)}, and goes on at {poll.offset}",
            )
        offsets = [record.offset for record in poll.records]
        if any(
            later <= earlier for earlier, later in zip([poll.offset - 1, *offsets], offsets, strict=False)
        ):
            yield Anomaly(
                Kind.NONMONOTONIC_POLL,
                f"{poll.reader} asked for {poll.offset} of {_name(poll.partition)}, and was given {offsets}",
            )
        known = (facts.committed if poll.is_committed else facts.standing)[poll.partition]
        given = set(offsets)
        skipped = [at for at in range(start_offset, poll.next_offset) if at in known and at not in given]
        if skipped:
            yield Anomaly(
                Kind.SKIPPING_POLL,
                f"{poll.reader} went from {start_offset} to {poll.next_offset} of {_name(poll.partition)} at"
                f" {poll.at:.6f}, and was not given {skipped}: {[known[at] for at in skipped[:WORDS_VALUES_MAX]]}",
            )
        last[key] = poll


def _check_told_offsets(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """Committed offsets are those of transactions that were committed, and those alone."""
    last: dict[tuple[str, Partition], OffsetRead] = {}
    for read in history.offset_reads:
        last[read.group_id, read.partition] = read
        if read.transaction is None:
            continue
        transaction = history.transactions.get(read.transaction)
        words = f"{read.group_id} is told {read.offset} of {_name(read.partition)}, by {read.transaction}"
        if transaction is None:
            yield Anomaly(Kind.PHANTOM, words)
        elif transaction.outcome is Outcome.ABORTED:
            yield Anomaly(Kind.OFFSETS_APART, f"{words}, which was aborted")
        elif read.at < transaction.commit_asked_at:
            yield Anomaly(Kind.INTERMEDIATE_READ, f"{words}, which is open")
    for transaction, advance in _visible_advances(history, facts):
        found = last.get((advance.group_id, advance.partition))
        if found is not None and found.offset < advance.next_offset:
            yield Anomaly(
                Kind.OFFSETS_APART,
                f"{transaction.name} took {advance.group_id} to {advance.next_offset} of"
                f" {_name(advance.partition)}, but in the end it is at {found.offset}",
            )


def _check_consumption(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """What a group has left behind, one committed transaction has consumed."""
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
                    f"{group_id} went past {left} of {_name(partition)}, between {by} and {transaction.name}",
                )
            if advance.next_offset > reached:
                reached, by = advance.next_offset, transaction.name


def _visible_advances(history: History, facts: _Facts) -> Iterator[tuple[Transaction, Advance]]:
    for transaction in history.transactions.values():
        if facts.is_visible(transaction):
            for advance in transaction.advances:
                yield transaction, advance


def _check_flow(history: History, facts: _Facts) -> Iterator[Anomaly]:
    """No transaction has seen what came of itself (G1c): reading what another wrote makes one depend on it."""
    depends_on: dict[str, list[str]] = {}
    for transaction in history.transactions.values():
        if facts.is_visible(transaction):
            authors = [facts.writers.get(record.value) for record in transaction.reads]
            names = {author[0].name: None for author in authors if author is not None}
            depends_on[transaction.name] = [name for name in names if name != transaction.name]
            if transaction.name in names:
                yield Anomaly(Kind.CIRCULAR_FLOW, f"{transaction.name} was given its own records")
    cycle = find_cycle(depends_on)
    if cycle:
        yield Anomaly(Kind.CIRCULAR_FLOW, " was given records of ".join(cycle))


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
