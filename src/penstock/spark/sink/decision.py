"""What a sink's log means: who may decide, what was decided, and what a batch therefore has to do. No I/O.

A sink has one log, in which records of two kinds stand. The **log's order is the judge**, so nothing has to be locked:

- `Claim(run, replaces)`: from here on this run of the query decides. It counts only if `replaces` is who held the sink
  at that place of the log, so of two that claim at the same time one wins, and one that comes back from the dead loses.
  A run gives the sink up by a claim of `given_up_by(run)` that replaces the run. If the run does not hold the sink, its
  holder stays, but the run is over: its tasks must not write.
- `Decision(run, batch, tasks)`: these transactions are committed, whatever happens. It counts only if `run` holds the
  sink at that place, and no later batch is decided yet.

An entry may stand in the log twice, the second time much later: tasks of one run claim at the same time, and what was
sent again for want of an answer may come after all. Compaction leaves the last record of each key. So keys are such
that it can only ever take away what has no say: no two copies of a claim share one, because it is the first that
counts; and decisions share one only if the later was sent when the earlier had come.

Invariants. A decision that counts is never taken back: whoever finds it ends its transactions by committing them.
Before a run writes anything, it holds the sink; so what it has not found decided, no earlier run can decide any more.
Two attempts at the same work never share a transactional id, so that none can abort what another one has prepared.
A log that was compacted, up to any place and at any time, means what the whole of it means.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.client.producer.prepared import PreparedTransaction
from penstock.spark.errors import SparkError
from penstock.spark.sink import messages

NOBODY = ""
"""Holds a sink that no run has claimed yet."""
GIVEN_UP = "/ended"


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
    prefix: str | None = None
    """What the run's transactional ids begin with, for whoever has to find them; logs of old do not say it."""


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
    copy: int = 0
    """How often decisions of this run were sent again so far: a copy may still be under way, which must not have the
    key of a later decision, or compaction would leave it in that one's place."""
    since: int | None = None
    """A position of the log at which its run was seen to hold the sink: where one can begin who has not read what
    comes before; logs of old do not say it."""

    def is_behind(self, other: Decision | None) -> bool:
        """Whether it says nothing new where the other one counts already: it is a copy that came late."""
        if other is None or self.batch > other.batch:
            return False
        if self.batch < other.batch:
            return True
        return self.run == other.run and self.copy <= other.copy

    def is_copy_of(self, other: Decision | None) -> bool:
        return other is not None and replace(self, copy=other.copy) == other

    @property
    def transactions(self) -> list[PreparedTransaction]:
        return [task.transaction for task in self.tasks if task.transaction is not None]

    @property
    def rows(self) -> int:
        return sum(task.rows for task in self.tasks)

    def task(self, partition: int) -> TaskWrote | None:
        return next((task for task in self.tasks if task.partition == partition), None)


Entry = Claim | Decision
EntryOrKind = TypeVar("EntryOrKind", Claim, Decision, Entry)


def key_of(entry: Entry, unique: str) -> str:
    """The key of a record. `unique` is another one each time that anything is sent."""
    if isinstance(entry, Claim):
        return f"claim:{entry.sink}:{entry.run}:{unique}"
    # Two in turn: where the last decision comes too late to count, compaction leaves the one before.
    return f"decision:{entry.sink}:{entry.run}:{entry.copy}:{entry.batch % 2}"


def sent_again(entry: EntryOrKind) -> EntryOrKind:
    """What is sent when no answer came to an entry."""
    return replace(entry, copy=entry.copy + 1) if isinstance(entry, Decision) else entry


def to_json(entry: Entry) -> bytes:
    """The value of a record."""
    said: dict[str, object] = {"sink": entry.sink, "run": entry.run}
    if isinstance(entry, Claim):
        said |= {"kind": "claim", "replaces": entry.replaces}
        if entry.prefix is not None:
            said["prefix"] = entry.prefix
    else:
        tasks = [
            [t.partition, t.rows, None if t.transaction is None else str(t.transaction)] for t in entry.tasks
        ]
        said |= {"kind": "decision", "batch": entry.batch, "tasks": tasks, "copy": entry.copy}
        if entry.since is not None:
            said["since"] = entry.since
    return json.dumps(said, separators=(",", ":")).encode()


def of_json(value: bytes) -> Entry:
    try:
        said = json.loads(value)
        if said["kind"] == "claim":
            return Claim(said["sink"], said["run"], said["replaces"], said.get("prefix"))
        if said["kind"] == "decision":
            tasks = [
                TaskWrote(partition, rows, None if text is None else PreparedTransaction.parse(text))
                for partition, rows, text in said["tasks"]
            ]
            copy, since = said.get("copy", 0), said.get("since")
            return Decision(said["sink"], said["run"], said["batch"], tuple(tasks), copy, since)
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
    """Also runs that gave the sink up without having held it."""
    prefixes: frozenset[str] = frozenset()
    """What transactional ids of its holders begin with, the present one among them."""
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
            counts = entry.run == self.holder and not entry.is_behind(self.decision)
            return replace(ledger, decision=entry) if counts else ledger
        # Of an older log compaction may have left no more than its last claims.
        is_first = self.holder == NOBODY and self.is_known_from_start
        if entry.replaces != self.holder and not is_first:
            if entry.run == given_up_by(entry.replaces):
                return replace(ledger, past_holders=self.past_holders | {entry.run, entry.replaces})
            return ledger
        past = self.past_holders | {self.holder, entry.replaces} - {entry.run, NOBODY}
        prefixes = self.prefixes if entry.prefix is None else self.prefixes | {entry.prefix}
        return replace(ledger, holder=entry.run, past_holders=past, prefixes=prefixes)

    def after_all(self, entries: Iterable[tuple[int, Entry]]) -> Ledger:
        ledger = self
        for offset, entry in entries:
            ledger = ledger.after(offset, entry)
        return ledger

    def has_lost(self, run: str) -> bool:
        """Whether a run has held the sink and can decide nothing any more."""
        return run in self.past_holders and self.holder != run

    def has_given_up(self, run: str) -> bool:
        """Whether a run was given up, even if it had not claimed the sink by then or claimed it only afterwards."""
        name = given_up_by(run)
        return name == self.holder or name in self.past_holders

    @classmethod
    def held_by(cls, sink: str, run: str, position: int) -> Ledger:
        """What a run knows that held the sink at that position, and needs to know no more."""
        return cls(sink, run, position=position, is_known_from_start=False)


def recalled(sink: str, run: str, start: int, tail: Sequence[tuple[int, Entry]]) -> Ledger | None:
    """What the end of a log says to a run that holds the sink: who holds it and what was decided last are known for
    certain, earlier runs are not. None to others, or where the end does not reach back far enough. `tail` is all that
    the log holds of the sink from `start` on."""
    own = [entry for _, entry in tail if isinstance(entry, Decision) and entry.run == run]
    for last in reversed(own):
        if last.since is None or last.since < start:
            continue
        known = Ledger.held_by(sink, run, last.since)
        ledger = known.after_all((offset, entry) for offset, entry in tail if offset >= last.since)
        # A decision that counts tells all that there is to know of those before.
        return ledger if ledger.holder == run and ledger.decision is not None else None
    return None


# -- what a batch has to do


@dataclass(frozen=True, slots=True)
class Place:
    """Which task of which batch of which run this is, and the number of the attempt."""

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
    prefixes: frozenset[str]
    """What transactional ids of these begin with, and of its own."""
    copy: int
    """The `copy` of the last decision of its run."""
    last: Decision | None
    """The last one that counted, of whichever run."""
    decided: Decision | None
    """What was decided for this batch before."""
    wrote: TaskWrote | None
    """None where nothing had to be written."""
    found_open: bool = False
    """Whether a transaction of `decided` was still open, so an earlier run had not finished the batch."""


def may_claim(ledger: Ledger, run: str, prefix: str) -> Claim:
    """The claim of a run that does not hold the sink; raises where it has lost it."""
    check_not_lost(ledger, run)
    return Claim(ledger.sink, run, ledger.holder, prefix)


def check_not_lost(ledger: Ledger, run: str) -> None:
    """Raise if the run is over: it was given up, or another run has taken the sink over."""
    if ledger.has_given_up(run):
        raise SinkStopped(messages.given_up(ledger.sink))
    if ledger.has_lost(run):
        raise Superseded(messages.superseded(ledger.sink, ledger.holder))


def given_up_by(run: str) -> str:
    """Who holds a sink after a run has given it up: nobody, but by a name that no later run has."""
    return f"{run}{GIVEN_UP}"


def is_held(ledger: Ledger) -> bool:
    """Whether a run holds the sink that has not given it up."""
    return ledger.holder != NOBODY and not ledger.holder.endswith(GIVEN_UP)


def decided_before(ledger: Ledger, place: Place) -> Decision | None:
    """What an earlier run decided for a batch that is about to be written; raises where it must not be written."""
    decision, batch = ledger.decision, place.batch
    if decision is None or decision.batch < batch:
        return None
    if decision.batch > batch:
        raise SinkStopped(
            f"batch {batch} of query {ledger.sink} is to be written, but batch {decision.batch} was written already:"
            " the checkpoint is older than the output, as one that was restored is. Begin with a new checkpoint, and"
            " with another name where to_topics was given one"
        )
    if decision.run == place.run:
        raise SinkStopped(
            f"batch {batch} of query {ledger.sink} is written twice in one run: of several sinks in one foreachBatch"
            " each needs a name of its own"
        )
    return decision


def check_repeated(sink: str, before: TaskWrote, rows: int) -> None:
    """A transaction that was decided and then aborted by its time-out is written again, by the same rows only."""
    if before.rows != rows:
        raise SinkStopped(
            messages.not_repeatable(
                sink, transaction=before.transaction, rows_before=before.rows, rows_now=rows
            )
        )


def check_same_write(done: Sequence[Done], *, rows: int) -> None:
    """Refuse other rows under the id of a write that is committed, which would otherwise be dropped in silence."""
    decided = done[0].decided
    if decided is not None and decided.rows != rows:
        raise SinkStopped(
            messages.written_with_other_rows(decided.sink, rows_before=decided.rows, rows_now=rows)
        )


def has_finished_earlier(done: Sequence[Done]) -> bool:
    """Whether this run committed what an earlier one had decided and left open, or wrote it again."""
    return any(each.decided is not None and (each.found_open or each.wrote is not None) for each in done)


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
            f"while batch {batch} of {messages.named(first.sink)} was written, another run decided it: it is run twice"
        )
    wrote = {each.wrote.partition: each.wrote for each in done if each.wrote is not None}
    (before,) = befores
    if before is not None:
        wrote = {task.partition: task for task in before.tasks} | wrote
    return Decision(
        sink=first.sink,
        run=first.run,
        batch=batch,
        tasks=tuple(wrote[partition] for partition in sorted(wrote)),
        copy=max(each.copy for each in done),
        since=max(each.position for each in done),
    )


def left_behind(
    open_ids: Iterable[str], *, prefixes: Collection[str], sink: str, runs: Collection[str]
) -> list[str]:
    """Which open transactions belong to these runs. Others may be of a run that has taken over meanwhile."""
    begins = {f"{ids_of(prefix, sink)}{run}" for prefix in prefixes for run in runs}
    return sorted(each for each in open_ids if each.rpartition("-")[0] in begins)
