"""The steps of a task, a commit, an abort and the end of a run. Requests to the cluster go through `Port`.

    a task:   read the log, claim the sink if the run does not hold it, write a transaction, read the log again to check
              that the run still holds the sink, leave the transaction open
    commit:   write the decision, read the log to check that it counts, commit all transactions
    abort:    give the sink up, read the log to check whether the batch was decided after all, abort what was not
    retire:   the same for a run that ended silently: commit what it decided, abort the rest
    finish:   the same for a sink whose driver is known to be dead, whichever run holds it

A batch write takes the same steps as a micro-batch: it is batch 0 of its own sink (`batch_write`). Its abort is
`abort_write`, which commits what was decided, because there may be no later run.

A crash between any two steps leaves either no decision that counts, and then no record of the batch ever becomes
visible; or one, and then the next run of the query or the write, or `finish`, commits exactly that. The simulation
in `tests/harness/sink_simulation.py` crashes everywhere, delays and repeats requests, and lets old runs continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.client.prepared_transaction import PreparedTransaction
from penstock.spark.sink import messages
from penstock.spark.sink.decision import (
    Claim,
    Decision,
    Entry,
    Ledger,
    SinkStopped,
    Superseded,
    TaskAttempt,
    TaskOutput,
    TaskResult,
    check_not_lost,
    check_repeated,
    claim_for,
    decide,
    decided_before,
    given_up_by,
    is_held,
    leftover_ids,
)

CLEAN_EVERY_BATCHES = 20  # a late transaction of a superseded attempt must not block readers forever


class Port(Protocol):
    """What the protocol needs from a cluster."""

    async def append(self, entry: Entry) -> int:
        """Append to the decision log; returns the offset once the entry is durable. Copies of it may be in the log
        too, or arrive later: see `next_copy`."""

    async def read(self, ledger: Ledger, *, through: int = -1) -> Ledger:
        """The ledger with everything in the log by now, and in any case with the entry at `through`."""

    async def recall(self, sink: str, run: str) -> Ledger:
        """The ledger to start with if nothing was read yet: from the end of the log if that is enough for the run
        (see `recalled`), otherwise an empty one, for which `read` reads the whole log."""

    async def complete(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[bool]:
        """End prepared transactions; for each, whether it has ended this way, now or before."""

    async def open_ids(self, sink: str, prefixes: Collection[str]) -> list[str]:
        """The transactional ids of a sink with open transactions, among those that start with one of the prefixes."""

    async def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, and fence its producer."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task has to do: write its rows, unless `is_written`."""

    task_attempt: TaskAttempt
    ledger: Ledger
    decided: Decision | None
    is_written: bool
    before: TaskOutput | None
    """An output that was decided and has to be written again."""
    found_open: bool = False
    """Whether a transaction of `decided` was still open."""

    def result(self, transaction: PreparedTransaction | None, rows: int) -> TaskResult:
        """The result for the driver, after `rows` were written."""
        wrote = None
        if not self.is_written:
            if self.before is not None:
                check_repeated(self.task_attempt.sink, self.before, rows)
            wrote = TaskOutput(self.task_attempt.partition, rows, transaction)
        last = self.ledger.decision
        own = last if last is not None and last.run == self.task_attempt.run else None
        return TaskResult(
            task_attempt=self.task_attempt,
            position=self.ledger.position,
            is_first_batch=own is None,
            past_runs=self.ledger.past_holders,
            prefixes=self.ledger.prefixes,
            copy=0 if own is None else own.copy,
            last=last,
            decided=self.decided,
            wrote=wrote,
            found_open=self.found_open,
        )


async def assign(port: Port, ledger: Ledger | None, task_attempt: TaskAttempt, *, prefix: str) -> Assignment:
    """What a task has to do. `ledger` is what its process has read before, if anything."""
    if ledger is None:
        ledger = await port.recall(task_attempt.sink, task_attempt.run)
    ledger = await _hold(port, ledger, task_attempt.run, prefix)
    decided = decided_before(ledger, task_attempt)
    if decided is None:
        return Assignment(task_attempt, ledger, None, is_written=False, before=None)
    open_ids = await port.open_ids(task_attempt.sink, ledger.prefixes | {prefix})
    found_open = any(each.transactional_id in open_ids for each in decided.transactions)
    task = decided.task(task_attempt.partition)
    own = [] if task is None or task.transaction is None else [task.transaction]
    is_written = all(await port.complete(own, commit=True))
    return Assignment(task_attempt, ledger, decided, is_written, None if is_written else task, found_open)


async def _hold(port: Port, ledger: Ledger, run: str, prefix: str) -> Ledger:
    """Hold the sink for the run. After this, no other run can decide anything that is not in the ledger."""
    ledger = await port.read(ledger)
    while ledger.holder != run:
        offset = await port.append(claim_for(ledger, run, prefix))
        ledger = await port.read(ledger, through=offset)
    if ledger.has_given_up(run):
        # The job was aborted while the claim was in flight, and will not look for this task's transaction again.
        check_not_lost(await _give_up(port, ledger, run, prefix), run)
    return ledger


async def hand_over(
    port: Port, assignment: Assignment, transaction: PreparedTransaction | None, rows: int
) -> TaskResult:
    """The result for the driver, after `rows` were written to an open transaction. If the run was given up
    meanwhile, its open transactions may have been listed without this one, so the task aborts it itself."""
    if transaction is not None:
        ledger = await port.read(assignment.ledger)
        if ledger.holder != assignment.task_attempt.run:
            await port.complete([transaction], commit=False)
            check_not_lost(ledger, assignment.task_attempt.run)
        assignment = replace(assignment, ledger=ledger)
    return assignment.result(transaction, rows)


async def commit(port: Port, results: Sequence[TaskResult], batch: int, *, prefix: str) -> Decision:
    """Decide the batch and commit its transactions. Raises `Superseded` if it was not decided."""
    decision = decide(results, batch)
    if any(each.is_first_batch for each in results):
        # Spark may count a batch as written although its commit failed, because a function of `foreachBatch` can ignore
        # the error. So commit the last decision for certain before another one replaces it.
        for last in {each.last for each in results if each.last is not None}:
            await port.complete(last.transactions, commit=True)
    start = max(each.position for each in results)
    offset = await port.append(decision)
    ledger = await port.read(Ledger.held_by(decision.sink, decision.run, start), through=offset)
    if not decision.is_copy_of(ledger.decision):
        raise Superseded(
            f"another run of {messages.named(decision.sink)} took over ({ledger.holder}) and commits batch {batch}"
        )
    await _commit_decided(port, decision)
    is_repeated = any(each.task_attempt.attempt for each in results)
    if is_repeated or any(each.is_first_batch for each in results) or batch % CLEAN_EVERY_BATCHES == 0:
        runs = frozenset().union(*(each.past_runs for each in results)) | {decision.run}
        prefixes = frozenset({prefix}).union(*(each.prefixes for each in results))
        await _abort_leftovers(port, decision.sink, runs, prefixes, decision)
    return decision


async def abort(
    port: Port,
    results: Sequence[TaskResult],
    batch: int,
    *,
    prefix: str,
    task_attempt: TaskAttempt | None = None,
) -> None:
    """Abort what is not decided, and nothing that is. The run is over: it gives the sink up first, so that a
    decision in flight comes too late. `task_attempt` says which batch it is if no task has reported."""
    if results:
        task_attempt = results[0].task_attempt
        ledger = Ledger.held_by(task_attempt.sink, task_attempt.run, max(each.position for each in results))
    elif task_attempt is not None:
        ledger = await port.read(await port.recall(task_attempt.sink, task_attempt.run))
    else:
        return  # nothing is known; the driver retires the run, or the next run finds its open transactions
    if ledger.holder == task_attempt.run:
        ledger = await _give_up(port, ledger, task_attempt.run, prefix)
        if ledger.decision is not None and ledger.decision.batch >= batch:
            return  # decided by this run after all, or by one that took over and cleans up
    wrote = [each.wrote.transaction for each in results if each.wrote is not None]
    await port.complete([each for each in wrote if each is not None], commit=False)
    await _abort_leftovers(port, task_attempt.sink, {task_attempt.run}, {prefix}, ledger.decision)


async def retire(port: Port, sink: str, run: str, *, prefix: str) -> Ledger:
    """End the open transactions of a run that is over: commit what it decided, abort the rest. Harmless if it is not
    over or another run took over. A task that has not claimed the sink yet may claim it afterwards: repeat the call
    if such tasks may still run. Returns the final ledger."""
    ledger = await port.read(await port.recall(sink, run))
    if ledger.holder == run:
        ledger = await _give_up(port, ledger, run, prefix)
    if not ledger.has_lost(run):
        return ledger  # it never held the sink, so it has nothing open, and may decide what it opens later
    # It can decide nothing more, and none of its tasks starts; a task that is writing aborts its own transaction.
    await _abort_leftovers(port, sink, {run}, {prefix}, ledger.decision)
    return ledger


async def abort_write(port: Port, sink: str, run: str, *, prefix: str) -> Ledger:
    """The end of a batch write whose job failed. There may be no later run, and this is not called again. So it
    commits what was decided after all, and gives the run up even if none of its tasks has claimed the sink yet: a
    task that starts later finds that its run is over. Another job that holds the sink keeps it. Returns the final
    ledger."""
    ledger = await port.read(await port.recall(sink, run))
    while not ledger.has_lost(run):
        ledger = await _give_up(port, ledger, run, prefix)
    await _abort_leftovers(port, sink, {run}, {prefix}, ledger.decision)
    if ledger.decision is not None:
        await _commit_decided(port, ledger.decision)
    return ledger


async def finish(port: Port, sink: str, *, prefix: str) -> Ledger:
    """End a sink for good, whichever run holds it: commit what is decided, abort the rest. For an operator who knows
    that the driver is dead. If the driver is alive after all, it can decide nothing more. Returns the final ledger."""
    ledger = await port.read(Ledger(sink))
    while is_held(ledger):
        ledger = await _give_up(port, ledger, ledger.holder, prefix)
    if ledger.decision is not None:
        await _commit_decided(port, ledger.decision)
    runs = ledger.past_holders | {ledger.holder}
    await _abort_leftovers(port, sink, runs, ledger.prefixes | {prefix}, ledger.decision)
    return ledger


async def _commit_decided(port: Port, decision: Decision) -> None:
    is_committed = await port.complete(decision.transactions, commit=True)
    if all(is_committed):
        return
    outcomes = zip(decision.transactions, is_committed, strict=True)
    lost = [transaction for transaction, is_committed in outcomes if not is_committed]
    raise SinkStopped(messages.aborted_after_decision(decision.sink, batch=decision.batch, transactions=lost))


async def _give_up(port: Port, ledger: Ledger, run: str, prefix: str) -> Ledger:
    """End a run by a claim without an owner. If the run holds the sink, its decision in flight comes too late."""
    claim = Claim(ledger.sink, given_up_by(run), replaces=run, prefix=prefix)
    return await port.read(ledger, through=await port.append(claim))


async def _abort_leftovers(
    port: Port, sink: str, runs: Collection[str], prefixes: Collection[str], decision: Decision | None
) -> None:
    """Abort what killed tasks left open, which would hide all later records from read_committed consumers. The last
    decision is committed first."""

    async def find() -> list[str]:
        return leftover_ids(await port.open_ids(sink, prefixes), prefixes=prefixes, sink=sink, runs=runs)

    orphans = await find()
    decided = [] if decision is None else decision.transactions
    if ending := [each for each in decided if each.transactional_id in orphans]:
        await port.complete(ending, commit=True)
        # The same id may have an open transaction of a later batch by now, so look again.
        orphans = await find()
    await asyncio.gather(*(port.fence(each) for each in orphans))
