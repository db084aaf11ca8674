"""What the log of a sink means: which run may decide, what was decided, and what a batch therefore has to do. No
I/O.

Every sink has one log with two kinds of records. The **order of the log decides**, so nothing is locked:

- `Claim(run, replaces)`: from here on this run of the query decides. It counts only if `replaces` held the sink at that
  position, so of two concurrent claims one wins, and a run that comes back late loses. A run gives the sink up by a
  claim of `given_up_by(run)` that replaces the run. If the run does not hold the sink, the holder stays, but the run is
  over: its tasks must not write.
- `Decision(run, batch, tasks)`: these transactions are committed, whatever happens. It counts only if `run` holds the
  sink at that position, and no later batch is decided yet.

An entry may be in the log twice, the second time much later: tasks of one run claim concurrently, and an entry that
was resent for lack of a response may arrive after all. Compaction keeps the last record of each key. So keys are
chosen such that compaction removes only records without effect: no two copies of a claim share a key, because the
first counts; and decisions share one only if the later was sent after the earlier was acknowledged.

Invariants. A decision that counts is final: every reader of it commits its transactions. A run holds the sink before
it writes, so no earlier run can decide what the run did not find decided. Two attempts at the same work never share
a transactional id, so that neither can abort what the other prepared. A compacted log means the same as the whole
log, wherever and whenever it was compacted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.client.prepared_transaction import PreparedTransaction
from penstock.spark.errors import SparkError
from penstock.spark.sink import messages

NO_RUN = ""
"""The holder of a sink that no run has claimed yet."""
GIVEN_UP = "/ended"


class SinkStopped(SparkError):
    """The sink cannot or must not continue."""


class Superseded(SinkStopped):
    """Another run of the same query took the sink over, so this one must not write any more."""


# -- the records of the log


@dataclass(frozen=True, slots=True)
class Claim:
    sink: str
    run: str
    replaces: str
    prefix: str | None = None
    """The prefix of the run's transactional ids, by which they are found; old logs lack it."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task of a batch wrote; no transaction if it had no rows."""

    partition: int
    rows: int
    transaction: PreparedTransaction | None


@dataclass(frozen=True, slots=True)
class Decision:
    sink: str
    run: str
    batch: int
    tasks: tuple[TaskOutput, ...]
    copy: int = 0
    """How often decisions of this run have been resent so far. A copy that is still in flight must not have the key
    of a later decision, or compaction would keep it instead."""
    since: int | None = None
    """A position at which the run held the sink, from which a reader can start without the records before; old logs
    lack it."""

    def is_behind(self, other: Decision | None) -> bool:
        """Whether it adds nothing to the other one, which counts already: it is a late copy."""
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

    def task(self, partition: int) -> TaskOutput | None:
        return next((task for task in self.tasks if task.partition == partition), None)


Entry = Claim | Decision
EntryOrKind = TypeVar("EntryOrKind", Claim, Decision, Entry)


def key_of(entry: Entry, unique: str) -> str:
    """The key of a record. `unique` differs for every send."""
    if isinstance(entry, Claim):
        return f"claim:{entry.sink}:{entry.run}:{unique}"
    # Two alternating keys: if the last decision comes too late to count, compaction keeps the one before.
    return f"decision:{entry.sink}:{entry.run}:{entry.copy}:{entry.batch % 2}"


def next_copy(entry: EntryOrKind) -> EntryOrKind:
    """The entry to send again when there was no response."""
    return replace(entry, copy=entry.copy + 1) if isinstance(entry, Decision) else entry


def to_json(entry: Entry) -> bytes:
    """The value of a record."""
    fields: dict[str, object] = {"sink": entry.sink, "run": entry.run}
    if isinstance(entry, Claim):
        fields |= {"kind": "claim", "replaces": entry.replaces}
        if entry.prefix is not None:
            fields["prefix"] = entry.prefix
    else:
        tasks = [
            [t.partition, t.rows, None if t.transaction is None else str(t.transaction)] for t in entry.tasks
        ]
        fields |= {"kind": "decision", "batch": entry.batch, "tasks": tasks, "copy": entry.copy}
        if entry.since is not None:
            fields["since"] = entry.since
    return json.dumps(fields, separators=(",", ":")).encode()


def of_json(value: bytes) -> Entry:
    try:
        fields = json.loads(value)
        if fields["kind"] == "claim":
            return Claim(fields["sink"], fields["run"], fields["replaces"], fields.get("prefix"))
        if fields["kind"] == "decision":
            tasks = [
                TaskOutput(partition, rows, None if text is None else PreparedTransaction.parse(text))
                for partition, rows, text in fields["tasks"]
            ]
            copy, since = fields.get("copy", 0), fields.get("since")
            return Decision(fields["sink"], fields["run"], fields["batch"], tuple(tasks), copy, since)
    except (ValueError, KeyError, TypeError) as error:
        raise SinkStopped(f"the decision log contains {value[:100]!r}, which no sink wrote") from error
    raise SinkStopped(
        f"the decision log contains {fields['kind']!r}, which needs a newer version of Penstock"
    )


# -- their meaning


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the log says about one sink, up to an offset."""

    sink: str
    holder: str = NO_RUN
    past_holders: frozenset[str] = frozenset()
    """Includes runs that gave the sink up without having held it."""
    prefixes: frozenset[str] = frozenset()
    """The prefixes of transactional ids of its holders, past and present."""
    decision: Decision | None = None
    """The last one that counts."""
    position: int = 0
    """Where the next read starts."""
    is_known_from_start: bool = True
    """If false, the holder before the first read is as a task reported it."""

    def after(self, offset: int, entry: Entry) -> Ledger:
        """The ledger with one more entry."""
        ledger = replace(self, position=offset + 1)
        if entry.sink != self.sink:
            return ledger
        if isinstance(entry, Decision):
            counts = entry.run == self.holder and not entry.is_behind(self.decision)
            return replace(ledger, decision=entry) if counts else ledger
        # Compaction may have left only the last claims of an older log.
        is_first = self.holder == NO_RUN and self.is_known_from_start
        if entry.replaces != self.holder and not is_first:
            if entry.run == given_up_by(entry.replaces):
                return replace(ledger, past_holders=self.past_holders | {entry.run, entry.replaces})
            return ledger
        past = self.past_holders | {self.holder, entry.replaces} - {entry.run, NO_RUN}
        prefixes = self.prefixes if entry.prefix is None else self.prefixes | {entry.prefix}
        return replace(ledger, holder=entry.run, past_holders=past, prefixes=prefixes)

    def after_all(self, entries: Iterable[tuple[int, Entry]]) -> Ledger:
        ledger = self
        for offset, entry in entries:
            ledger = ledger.after(offset, entry)
        return ledger

    def has_lost(self, run: str) -> bool:
        """Whether a run held the sink and can decide nothing any more."""
        return run in self.past_holders and self.holder != run

    def has_given_up(self, run: str) -> bool:
        """Whether a run was given up, even if it had not claimed the sink by then or claimed it only afterwards."""
        name = given_up_by(run)
        return name == self.holder or name in self.past_holders

    @classmethod
    def held_by(cls, sink: str, run: str, position: int) -> Ledger:
        """The ledger of a run that held the sink at that position, and needs to know no more."""
        return cls(sink, run, position=position, is_known_from_start=False)


def recalled(sink: str, run: str, start: int, tail: Sequence[tuple[int, Entry]]) -> Ledger | None:
    """The ledger of a run that holds the sink, from the end of a log: the holder and the last decision are certain,
    earlier runs are unknown. None for other runs, or if the tail is too short. `tail` is everything in the log about
    the sink from `start` on."""
    own = [entry for _, entry in tail if isinstance(entry, Decision) and entry.run == run]
    for last in reversed(own):
        if last.since is None or last.since < start:
            continue
        known = Ledger.held_by(sink, run, last.since)
        ledger = known.after_all((offset, entry) for offset, entry in tail if offset >= last.since)
        # A decision that counts makes all earlier ones irrelevant.
        return ledger if ledger.holder == run and ledger.decision is not None else None
    return None


# -- what a batch has to do


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt of a task of a batch of a run."""

    sink: str
    run: str
    batch: int
    partition: int
    attempt: int = 0

    def transactional_id(self, prefix: str) -> str:
        """Different for every attempt: one that is still running must not fence the one that counts."""
        retried = f".{self.attempt}" if self.attempt else ""
        return f"{ids_of(prefix, self.sink)}{self.run}-{self.partition}{retried}"


def ids_of(prefix: str, sink: str) -> str:
    """The common prefix of all transactional ids of a sink."""
    return f"{prefix}-{sink}-"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task reports to the driver."""

    task_attempt: TaskAttempt
    position: int
    """How far it had read the log when its run held the sink."""
    is_first_batch: bool
    """Whether its run has decided nothing yet, so that earlier runs may have left transactions open."""
    past_runs: frozenset[str]
    """The earlier holders of the sink."""
    prefixes: frozenset[str]
    """The prefixes of transactional ids of these runs and of its own."""
    copy: int
    """The `copy` of the last decision of its run."""
    last: Decision | None
    """The last decision that counted, of any run."""
    decided: Decision | None
    """An earlier decision for this batch."""
    wrote: TaskOutput | None
    """None if nothing had to be written."""
    found_open: bool = False
    """Whether a transaction of `decided` was still open, so that an earlier run had not finished the batch."""


def claim_for(ledger: Ledger, run: str, prefix: str) -> Claim:
    """The claim of a run that does not hold the sink; raises if the run has lost it."""
    check_not_lost(ledger, run)
    return Claim(ledger.sink, run, ledger.holder, prefix)


def check_not_lost(ledger: Ledger, run: str) -> None:
    """Raise if the run is over: it was given up, or another run took the sink over."""
    if ledger.has_given_up(run):
        raise SinkStopped(messages.given_up(ledger.sink))
    if ledger.has_lost(run):
        raise Superseded(messages.superseded(ledger.sink, ledger.holder))


def given_up_by(run: str) -> str:
    """The holder of a sink after a run gave it up: no run, but a name that no later run has."""
    return f"{run}{GIVEN_UP}"


def is_held(ledger: Ledger) -> bool:
    """Whether a run holds the sink and has not given it up."""
    return ledger.holder != NO_RUN and not ledger.holder.endswith(GIVEN_UP)


def decided_before(ledger: Ledger, task_attempt: TaskAttempt) -> Decision | None:
    """The decision of an earlier run for a batch that is about to be written; raises if the batch must not be
    written."""
    decision, batch = ledger.decision, task_attempt.batch
    if decision is None or decision.batch < batch:
        return None
    if decision.batch > batch:
        raise SinkStopped(
            f"query {ledger.sink} is about to write batch {batch}, but batch {decision.batch} was already written: the"
            " checkpoint is older than the output, for example restored from a backup. Start with a new checkpoint,"
            " and with another name if to_topics has one"
        )
    if decision.run == task_attempt.run:
        raise SinkStopped(
            f"batch {batch} of query {ledger.sink} is written twice in one run: if a foreachBatch has several sinks,"
            " give each its own name"
        )
    return decision


def check_repeated(sink: str, before: TaskOutput, rows: int) -> None:
    """A transaction that was decided and then aborted by its timeout is written again, with the same rows only."""
    if before.rows != rows:
        raise SinkStopped(
            messages.not_repeatable(
                sink, transaction=before.transaction, rows_before=before.rows, rows_now=rows
            )
        )


def check_same_write(results: Sequence[TaskResult], *, rows: int) -> None:
    """Reject other rows under the id of a committed write, which would otherwise be dropped silently."""
    decided = results[0].decided
    if decided is not None and decided.rows != rows:
        raise SinkStopped(
            messages.written_with_other_rows(decided.sink, rows_before=decided.rows, rows_now=rows)
        )


def has_finished_earlier(results: Sequence[TaskResult]) -> bool:
    """Whether this run committed or rewrote what an earlier one decided and left open."""
    return any(each.decided is not None and (each.found_open or each.wrote is not None) for each in results)


def decide(results: Sequence[TaskResult], batch: int) -> Decision:
    """The decision that the driver writes, from the results of its tasks."""
    task_attempts = [each.task_attempt for each in results]
    first = task_attempts[0]
    assert all((p.sink, p.run, p.batch) == (first.sink, first.run, batch) for p in task_attempts), (
        "tasks of one batch"
    )
    befores = {each.decided for each in results}
    if len(befores) > 1:
        raise Superseded(
            f"another run decided batch {batch} of {messages.named(first.sink)} while this one wrote it: it runs twice"
        )
    wrote = {each.wrote.partition: each.wrote for each in results if each.wrote is not None}
    (before,) = befores
    if before is not None:
        wrote = {task.partition: task for task in before.tasks} | wrote
    return Decision(
        sink=first.sink,
        run=first.run,
        batch=batch,
        tasks=tuple(wrote[partition] for partition in sorted(wrote)),
        copy=max(each.copy for each in results),
        since=max(each.position for each in results),
    )


def leftover_ids(
    open_ids: Iterable[str], *, prefixes: Collection[str], sink: str, runs: Collection[str]
) -> list[str]:
    """The open transactions of these runs. Others may belong to a run that has taken over meanwhile."""
    begins = {f"{ids_of(prefix, sink)}{run}" for prefix in prefixes for run in runs}
    return sorted(each for each in open_ids if each.rpartition("-")[0] in begins)
