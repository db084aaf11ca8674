"""What a sink's log means: who may decide, what was decided, and what a batch therefore has to do. No I/O.

A sink has one log, in which records of two kinds stand. The **log's order is the judge**, so nothing has to be locked:

- `Claim(run, replaces)`: from here on this run of the query decides. It counts only if `replaces` is who held the sink
  at that place of the log, so of two that claim at the same time one wins, and one that comes back from the dead loses.
- `Decision(run, batch, tasks)`: these transactions are committed, whatever happens. It counts only if `run` holds the
  sink at that place.

Invariants. A decision that counts is never taken back: whoever finds it ends its transactions by committing them.
Before a run writes anything, it holds the sink; so what it has not found decided, no earlier run can decide any more.
Two attempts at the same work never share a transactional id, so that none can abort what another one has prepared.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.client.producer.prepared import PreparedTransaction
from penstock.spark.errors import SparkError

NOBODY = ""
"""Holds a sink that no run has claimed yet."""


class SinkStopped(SparkError):
    """The sink cannot go on, or must not."""


class Superseded(SinkStopped):
    """Another run of the same query has taken the sink over, so this one must not write any more."""


# -- what stands in the log


@dataclass(frozen=True, slots=True)
class Claim:
    sink: str
    run: str
    replaces: str

    @property
    def key(self) -> str:
        return f"claim:{self.sink}:{self.run}"


@dataclass(frozen=True, slots=True)
class TaskWrote:
    """What one task of a batch wrote; no transaction where there were no rows."""

    partition: int
    rows: int
    transaction: PreparedTransaction | None


@dataclass(frozen=True, slots=True)
class Decision:
    sink: str
    run: str
    batch: int
    tasks: tuple[TaskWrote, ...]

    @property
    def key(self) -> str:
        """Another than the decision before has: where this one comes too late to count, compaction leaves that one."""
        return f"decision:{self.sink}:{self.run}:{self.batch % 2}"

    @property
    def transactions(self) -> list[PreparedTransaction]:
        return [task.transaction for task in self.tasks if task.transaction is not None]

    def task(self, partition: int) -> TaskWrote | None:
        return next((task for task in self.tasks if task.partition == partition), None)


Entry = Claim | Decision


def to_json(entry: Entry) -> bytes:
    """The value of a record; its key is `entry.key`, so that compaction leaves the last ones of each run."""
    said: dict[str, object] = {"sink": entry.sink, "run": entry.run}
    if isinstance(entry, Claim):
        said |= {"kind": "claim", "replaces": entry.replaces}
    else:
        tasks = [
            [t.partition, t.rows, None if t.transaction is None else str(t.transaction)] for t in entry.tasks
        ]
        said |= {"kind": "decision", "batch": entry.batch, "tasks": tasks}
    return json.dumps(said, separators=(",", ":")).encode()


def of_json(value: bytes) -> Entry:
    try:
        said = json.loads(value)
        if said["kind"] == "claim":
            return Claim(said["sink"], said["run"], said["replaces"])
        if said["kind"] == "decision":
            tasks = [
                TaskWrote(partition, rows, None if text is None else PreparedTransaction.parse(text))
                for partition, rows, text in said["tasks"]
            ]
            return Decision(said["sink"], said["run"], said["batch"], tuple(tasks))
    except (ValueError, KeyError, TypeError) as error:
        raise SinkStopped(f"the log of decisions holds {value[:100]!r}, which no sink wrote") from error
    raise SinkStopped(
        f"the log of decisions holds {said['kind']!r}, which only a later version of Penstock knows"
    )


# -- what it means


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a log says of one sink, up to some offset."""

    sink: str
    holder: str = NOBODY
    past_holders: frozenset[str] = frozenset()
    decision: Decision | None = None
    """The last one that counts."""
    position: int = 0
    """Where the next look begins."""
    is_known_from_start: bool = True
    """Where false, who held the sink before the first look is what a task has told."""

    def after(self, offset: int, entry: Entry) -> Ledger:
        """What it says with one more entry."""
        ledger = replace(self, position=offset + 1)
        if entry.sink != self.sink:
            return ledger
        if isinstance(entry, Decision):
            return replace(ledger, decision=entry) if entry.run == self.holder else ledger
        # Of an older log compaction may have left no more than its last claims.
        is_first = self.holder == NOBODY and self.is_known_from_start
        if entry.replaces != self.holder and not is_first:
            return ledger
        past = self.past_holders | {self.holder, entry.replaces} - {entry.run, NOBODY}
        return replace(ledger, holder=entry.run, past_holders=past)

    def after_all(self, entries: Iterable[tuple[int, Entry]]) -> Ledger:
        ledger = self
        for offset, entry in entries:
            ledger = ledger.after(offset, entry)
        return ledger

    @classmethod
    def held_by(cls, sink: str, run: str, position: int) -> Ledger:
        """What a run knows that held the sink at that position, and needs to know no more."""
        return cls(sink, run, position=position, is_known_from_start=False)


# -- what a batch has to do


@dataclass(frozen=True, slots=True)
class Place:
    """Which task of which batch of which run this is, and the how manieth attempt at it."""

    sink: str
    run: str
    batch: int
    partition: int
    attempt: int = 0

    def transactional_id(self, prefix: str) -> str:
        """Another one for every attempt: one that is still running somewhere must not fence the one that counts."""
        retried = f".{self.attempt}" if self.attempt else ""
        return f"{ids_of(prefix, self.sink)}{self.run}-{self.partition}{retried}"


def ids_of(prefix: str, sink: str) -> str:
    """What all transactional ids of a sink begin with."""
    return f"{prefix}-{sink}-"


def run_of(transactional_id: str, prefix: str, sink: str) -> str:
    """The run that a transactional id of a sink belongs to."""
    return transactional_id.removeprefix(ids_of(prefix, sink)).rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Done:
    """What a task tells the driver."""

    place: Place
    position: int
    """How far it had read the log when its run held the sink."""
    is_first_batch: bool
    """Whether its run has decided nothing yet, so that earlier runs may have left something behind."""
    past_runs: frozenset[str]
    """Those that held the sink before."""
    decided: Decision | None
    """What was decided for this batch before."""
    wrote: TaskWrote | None
    """None where nothing had to be written."""


def may_claim(ledger: Ledger, run: str) -> Claim:
    """The claim of a run that does not hold the sink; raises where it has lost it."""
    if ledger.holder == given_up_by(run):
        raise SinkStopped(
            f"a batch of query {ledger.sink} failed, and with it this run of the query was given up: what failed is"
            " written when the query is started again, and not a second time in the same run"
        )
    if run in ledger.past_holders:
        raise Superseded(
            f"query {ledger.sink} is run by somebody else too, who has taken over ({ledger.holder}): was its checkpoint"
            " copied, or is an old driver still alive? Nothing was written twice. Stop one of them; a query of its own"
            " needs a checkpoint of its own"
        )
    return Claim(ledger.sink, run, ledger.holder)


def given_up_by(run: str) -> str:
    """Who holds a sink after a run has given it up: nobody, but by a name that no later run has."""
    return f"{run}/ended"


def decided_before(ledger: Ledger, place: Place) -> Decision | None:
    """What an earlier run decided for a batch that is about to be written; raises where it must not be written."""
    decision, batch = ledger.decision, place.batch
    if decision is None or decision.batch < batch:
        return None
    if decision.batch > batch:
        raise SinkStopped(
            f"batch {batch} of query {ledger.sink} is to be written, but batch {decision.batch} was written already:"
            " the checkpoint is older than the output, as one that was restored is. Begin with a new checkpoint"
        )
    if decision.run == place.run:
        raise SinkStopped(
            f"batch {batch} of query {ledger.sink} is written twice in one run: of several sinks in one foreachBatch"
            " each needs a name of its own"
        )
    return decision


def check_repeated(before: TaskWrote, rows: int) -> None:
    """A transaction that was decided and then aborted, by its time-out, is written again: by the same rows only."""
    if before.rows != rows:
        raise SinkStopped(
            f"the transaction {before.transaction} of {before.rows} rows was decided and then aborted, because it was"
            f" open for longer than the broker allows, and now there are {rows} rows in its place: the query does not"
            " give the same rows again, so they cannot be made good. Look at the last records of the output with"
            " isolation.level=read_committed, then begin with a new checkpoint"
        )


def decide(done: Sequence[Done], batch: int) -> Decision:
    """The decision that the driver writes, out of what its tasks have told."""
    places = [each.place for each in done]
    first = places[0]
    assert all((p.sink, p.run, p.batch) == (first.sink, first.run, batch) for p in places), (
        "tasks of one batch"
    )
    befores = {each.decided for each in done}
    if len(befores) > 1:
        raise Superseded(
            f"while batch {batch} of query {first.sink} was written, somebody else decided it: the query is run twice"
        )
    wrote = {each.wrote.partition: each.wrote for each in done if each.wrote is not None}
    (before,) = befores
    if before is not None:
        wrote = {task.partition: task for task in before.tasks} | wrote
    return Decision(first.sink, first.run, batch, tuple(wrote[partition] for partition in sorted(wrote)))


def left_behind(
    open_ids: Iterable[str], *, prefix: str, sink: str, runs: Collection[str], decision: Decision | None
) -> list[str]:
    """Which open transactions nobody will ever end: those of these runs, without what was decided. Others may belong to
    a run that has taken over meanwhile."""
    decided = set() if decision is None else {each.transactional_id for each in decision.transactions}
    return sorted(
        each
        for each in open_ids
        if each.startswith(ids_of(prefix, sink))
        and run_of(each, prefix, sink) in runs
        and each not in decided
    )
