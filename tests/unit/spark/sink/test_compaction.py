"""A compacted log means the same as the whole log, even with duplicate entries.

Runs of a query claim, decide and give up as in reality, from what they saw some time before; their entries may
arrive in the log again later. Then the log is compacted up to some position while a reader reads it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from penstock.client.prepared_transaction import PreparedTransaction
from penstock.spark.sink.decision import (
    Claim,
    Decision,
    Entry,
    Ledger,
    TaskOutput,
    given_up_by,
    key_of,
    next_copy,
    recalled,
)

SINK = "q"
Record = tuple[int, str, Entry]


@dataclass
class Log:
    """Everything that was ever appended, and what may still arrive."""

    rng: random.Random
    records: list[Record] = field(default_factory=list)
    late: list[Entry] = field(default_factory=list)

    def append(self, entry: Entry) -> None:
        if self.rng.random() < 0.3:  # no response, so it is sent again
            self.late.append(entry)
            entry = next_copy(entry)
        self._add(entry)
        if self.late and self.rng.random() < 0.4:
            self._add(self.late.pop(self.rng.randrange(len(self.late))))

    def _add(self, entry: Entry) -> None:
        self.records.append((len(self.records), key_of(entry, str(len(self.records))), entry))

    @property
    def ledger(self) -> Ledger:
        return read(self.records, Ledger(SINK))


@dataclass
class Run:
    """One run, with what its tasks saw at their last read."""

    name: str
    seen: Ledger

    def claim(self, log: Log) -> None:
        """Some tasks at the same time, none of which has seen the claims of the others."""
        for _ in range(log.rng.randint(1, 3)):
            log.append(Claim(SINK, self.name, self.seen.holder))

    def decide(self, log: Log) -> None:
        """As a driver does: after its batches before have counted, and whether it still holds the sink or not."""
        before = self.seen.decision
        own = before is not None and before.run == self.name
        batch = 0 if before is None else before.batch + log.rng.randint(0 if not own else 1, 1)
        copy = before.copy if before is not None and own else 0
        task = TaskOutput(0, 1, PreparedTransaction(f"penstock-{SINK}-{self.name}-0", 1, len(log.records)))
        log.append(Decision(SINK, self.name, batch, (task,), copy, since=self.seen.position))


def history(rng: random.Random) -> list[Record]:
    log = Log(rng)
    runs = [Run(f"run{number}", Ledger(SINK)) for number in range(rng.randint(1, 4))]
    over: set[str] = set()
    for _ in range(rng.randint(1, 25)):
        run = rng.choice(runs)
        if run.name in over:
            continue
        if rng.random() < 0.8:  # otherwise it acts on what it saw before: a zombie, or slow
            run.seen = log.ledger
        has_lost = run.name in run.seen.past_holders or run.seen.holder == given_up_by(run.name)
        if has_lost:
            over.add(run.name)
        elif run.seen.holder != run.name:
            run.claim(log)
        elif rng.random() < 0.1:
            log.append(Claim(SINK, given_up_by(run.name), run.name))
        else:
            offset = len(log.records)
            run.decide(log)
            counted = any(log.ledger.decision == entry for _, _, entry in log.records[offset:])
            if not counted:
                over.add(run.name)  # it was superseded
            run.seen = log.ledger
    for entry in log.late:
        log._add(entry)
    return log.records


def read(records: list[Record], ledger: Ledger) -> Ledger:
    return ledger.after_all((offset, entry) for offset, _, entry in records if offset >= ledger.position)


def compact(records: list[Record], end: int) -> list[Record]:
    """Below the end, keep the last record of each key."""
    last = {key: offset for offset, key, _ in records if offset < end}
    return [record for record in records if record[0] >= end or last[record[1]] == record[0]]


def check(seed: int) -> None:
    rng = random.Random(seed)
    whole = history(rng)
    compacted, ledger = whole, Ledger(SINK)
    for _ in range(rng.randint(1, 3)):
        compacted = compact(compacted, rng.randint(0, len(whole)))
        ledger = read(compacted[: rng.randint(0, len(compacted))], ledger)

    found, expected = read(compacted, ledger), read(whole, Ledger(SINK))

    assert (found.holder, found.past_holders) == (expected.holder, expected.past_holders), f"seed {seed}"
    assert found.decision == expected.decision, f"seed {seed}"
    start = rng.randint(0, len(whole))
    tail = [(offset, entry) for offset, _, entry in compacted if offset >= start]
    for number in range(4):
        ledger_of_end = recalled(SINK, f"run{number}", start, tail)
        if ledger_of_end is not None:
            assert ledger_of_end.holder == expected.holder == f"run{number}", f"seed {seed}"
            assert ledger_of_end.decision == expected.decision, f"seed {seed}"


def test_a_reader_of_a_compacted_log_knows_the_same_as_a_reader_of_the_whole_log() -> None:
    for seed in range(3000):
        check(seed)
