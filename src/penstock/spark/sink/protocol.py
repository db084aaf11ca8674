"""The steps of a task, of a commit, of an abort and of a run's end. What they ask of the cluster goes through `Port`.

    a task:   read the log, claim the sink if its run does not hold it, write a transaction, read on to see that its run
              still holds the sink, leave the transaction open
    commit:   write the decision, read on to see that it counts, commit all transactions
    abort:    give the sink up, read on to see whether the batch was decided after all, abort what was not
    retire:   the same for a run that has ended without a word: commit what it has decided, abort what it has not
    finish:   the same for a sink whose driver is known to be dead, whichever run holds it

A batch write takes the same steps as a micro-batch: it is batch 0 of a sink of its own (`batch_write`). Its abort is
`abort_write`, which commits what was decided, because no later run may come.

A crash between any two steps leaves one of two things: no decision that counts, and then nothing of the batch is ever
seen; or one, and then the next run of the query or the write, or `finish`, commits exactly that. The simulation in
`tests/harness/sink_simulation.py` crashes everywhere, delays and repeats requests, and lets old runs go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.client.producer.prepared import PreparedTransaction
from penstock.spark.sink import messages
from penstock.spark.sink.decision import (
    Claim,
    Decision,
    Done,
    Entry,
    Ledger,
    Place,
    SinkStopped,
    Superseded,
    TaskWrote,
    check_not_lost,
    check_repeated,
    decide,
    decided_before,
    given_up_by,
    is_held,
    left_behind,
    may_claim,
)

TIDY_EVERY_BATCHES = 20  # what an attempt that does not count opens late must not hold readers back for ever


class Port(Protocol):
    """What the protocol needs of a cluster."""

    async def append(self, entry: Entry) -> int:
        """To the log of decisions; its offset, when it will not be lost. Copies of it may stand there too, or come
        later: see `sent_again`."""

    async def read(self, ledger: Ledger, *, through: int = -1) -> Ledger:
        """What the ledger is with all that the log holds by now, and with the entry at `through` in any case."""

    async def recall(self, sink: str, run: str) -> Ledger:
        """What one begins with who has not looked yet: what the end of the log says, if that is enough for the run (see
        `recalled`); else a ledger that knows nothing, to which `read` tells all."""

    async def complete(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[bool]:
        """End prepared transactions; of each, whether it has ended so, now or before."""

    async def open_ids(self, sink: str, prefixes: Collection[str]) -> list[str]:
        """Transactional ids of a sink whose transactions are open, where ids begin with one of the prefixes."""

    async def fence(self, transactional_id: str) -> None:
        """Abort what is open under an id, and have whoever opened it refused from now on."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task has to do: write its rows, unless `is_written`."""

    place: Place
    ledger: Ledger
    decided: Decision | None
    is_written: bool
    before: TaskWrote | None
    """What was decided and has to be written again."""
    found_open: bool = False
    """Whether a transaction of `decided` was still open."""

    def done(self, transaction: PreparedTransaction | None, rows: int) -> Done:
        """What to tell the driver, when as much was written."""
        wrote = None
        if not self.is_written:
            if self.before is not None:
                check_repeated(self.place.sink, self.before, rows)
            wrote = TaskWrote(self.place.partition, rows, transaction)
        last = self.ledger.decision
        own = last if last is not None and last.run == self.place.run else None
        return Done(
            place=self.place,
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


async def assign(port: Port, ledger: Ledger | None, place: Place, *, prefix: str) -> Assignment:
    """What a task has to do. `ledger` is what its process knew from an earlier look, if it had one."""
    if ledger is None:
        ledger = await port.recall(place.sink, place.run)
    ledger = await _hold(port, ledger, place.run, prefix)
    decided = decided_before(ledger, place)
    if decided is None:
        return Assignment(place, ledger, None, is_written=False, before=None)
    open_ids = await port.open_ids(place.sink, ledger.prefixes | {prefix})
    found_open = any(each.transactional_id in open_ids for each in decided.transactions)
    task = decided.task(place.partition)
    own = [] if task is None or task.transaction is None else [task.transaction]
    is_written = all(await port.complete(own, commit=True))
    return Assignment(place, ledger, decided, is_written, None if is_written else task, found_open)


async def _hold(port: Port, ledger: Ledger, run: str, prefix: str) -> Ledger:
    """Hold the sink for the run. When this returns, no other run can decide what is not decided in the ledger."""
    ledger = await port.read(ledger)
    while ledger.holder != run:
        offset = await port.append(may_claim(ledger, run, prefix))
        ledger = await port.read(ledger, through=offset)
    if ledger.has_given_up(run):
        # The job was aborted while the claim was on its way, and will not look for this task's transaction again.
        check_not_lost(await _give_up(port, ledger, run, prefix), run)
    return ledger


async def hand_over(
    port: Port, assignment: Assignment, transaction: PreparedTransaction | None, rows: int
) -> Done:
    """What to tell the driver, when as much was written into a transaction that is open. Where the run was given up
    meanwhile, somebody may have looked for what it has open already and not found this, so the task ends it itself."""
    if transaction is not None:
        ledger = await port.read(assignment.ledger)
        if ledger.holder != assignment.place.run:
            await port.complete([transaction], commit=False)
            check_not_lost(ledger, assignment.place.run)
        assignment = replace(assignment, ledger=ledger)
    return assignment.done(transaction, rows)


async def commit(port: Port, done: Sequence[Done], batch: int, *, prefix: str) -> Decision:
    """Decide the batch and end its transactions. Raises `Superseded` where it was not decided."""
    decision = decide(done, batch)
    if any(each.is_first_batch for each in done):
        # Spark may take a batch for written whose commit failed: a function of `foreachBatch` can pass over the error.
        # So what was decided before is ended for certain, before another decision takes its place.
        for last in {each.last for each in done if each.last is not None}:
            await port.complete(last.transactions, commit=True)
    start = max(each.position for each in done)
    offset = await port.append(decision)
    ledger = await port.read(Ledger.held_by(decision.sink, decision.run, start), through=offset)
    if not decision.is_copy_of(ledger.decision):
        raise Superseded(
            f"another run of {messages.named(decision.sink)} has taken over ({ledger.holder}) and commits batch {batch}"
        )
    await _commit_decided(port, decision)
    is_repeated = any(each.place.attempt for each in done)
    if is_repeated or any(each.is_first_batch for each in done) or batch % TIDY_EVERY_BATCHES == 0:
        runs = frozenset().union(*(each.past_runs for each in done)) | {decision.run}
        prefixes = frozenset({prefix}).union(*(each.prefixes for each in done))
        await _tidy(port, decision.sink, runs, prefixes, decision)
    return decision


async def abort(
    port: Port, done: Sequence[Done], batch: int, *, prefix: str, place: Place | None = None
) -> None:
    """End what is not decided, and nothing that is. The run is over: it gives the sink up first, so that a decision
    which is still on its way comes too late. `place` says whose batch it is where no task has told."""
    if done:
        place = done[0].place
        ledger = Ledger.held_by(place.sink, place.run, max(each.position for each in done))
    elif place is not None:
        ledger = await port.read(await port.recall(place.sink, place.run))
    else:
        return  # nobody knows anything; the driver retires the run, or the next one finds what is open
    if ledger.holder == place.run:
        ledger = await _give_up(port, ledger, place.run, prefix)
        if ledger.decision is not None and ledger.decision.batch >= batch:
            return  # by this run after all, or by one that took over and looks after what was left
    wrote = [each.wrote.transaction for each in done if each.wrote is not None]
    await port.complete([each for each in wrote if each is not None], commit=False)
    await _tidy(port, place.sink, {place.run}, {prefix}, ledger.decision)


async def retire(port: Port, sink: str, run: str, *, prefix: str) -> Ledger:
    """End what a run has left open that is over: commit what it has decided, abort all else. Harmless where it is not
    over or another one has taken over. A task that has not claimed the sink yet may claim it afterwards: repeat the
    call if such tasks may still run. Returns what the log says in the end."""
    ledger = await port.read(await port.recall(sink, run))
    if ledger.holder == run:
        ledger = await _give_up(port, ledger, run, prefix)
    if not ledger.has_lost(run):
        return ledger  # it has never held the sink, so it has nothing open, and may decide what it opens from here on
    # Nothing is decided in its name any more, and no task of it begins; one that writes already ends what it opens.
    await _tidy(port, sink, {run}, {prefix}, ledger.decision)
    return ledger


async def abort_write(port: Port, sink: str, run: str, *, prefix: str) -> Ledger:
    """The end of a batch write whose job failed. No later run may come, so what was decided after all is committed
    here, and nobody calls this again. So the run is given up even if none of its tasks has claimed the sink yet: a task
    that starts later finds that its run is over. Another job that holds the sink keeps it. Returns what the log says in
    the end."""
    ledger = await port.read(await port.recall(sink, run))
    while not ledger.has_lost(run):
        ledger = await _give_up(port, ledger, run, prefix)
    await _tidy(port, sink, {run}, {prefix}, ledger.decision)
    if ledger.decision is not None:
        await _commit_decided(port, ledger.decision)
    return ledger


async def finish(port: Port, sink: str, *, prefix: str) -> Ledger:
    """End a sink for good, no matter which run holds it: commit what is decided, abort all else. For an operator who
    knows that the driver is dead. A driver that lives after all can decide nothing any more. Returns what the log says
    in the end."""
    ledger = await port.read(Ledger(sink))
    while is_held(ledger):
        ledger = await _give_up(port, ledger, ledger.holder, prefix)
    if ledger.decision is not None:
        await _commit_decided(port, ledger.decision)
    runs = ledger.past_holders | {ledger.holder}
    await _tidy(port, sink, runs, ledger.prefixes | {prefix}, ledger.decision)
    return ledger


async def _commit_decided(port: Port, decision: Decision) -> None:
    is_committed = await port.complete(decision.transactions, commit=True)
    if all(is_committed):
        return
    told = zip(decision.transactions, is_committed, strict=True)
    lost = [transaction for transaction, is_so in told if not is_so]
    raise SinkStopped(messages.aborted_after_decision(decision.sink, batch=decision.batch, transactions=lost))


async def _give_up(port: Port, ledger: Ledger, run: str, prefix: str) -> Ledger:
    """Ends a run by a claim in nobody's name. If the run holds the sink, a decision of it that is still on its way
    comes too late."""
    claim = Claim(ledger.sink, given_up_by(run), replaces=run, prefix=prefix)
    return await port.read(ledger, through=await port.append(claim))


async def _tidy(
    port: Port, sink: str, runs: Collection[str], prefixes: Collection[str], decision: Decision | None
) -> None:
    """Abort what killed tasks have left open, which would hide all later records from readers of committed ones. What
    was decided last is committed first."""

    async def find() -> list[str]:
        return left_behind(await port.open_ids(sink, prefixes), prefixes=prefixes, sink=sink, runs=runs)

    orphans = await find()
    decided = [] if decision is None else decision.transactions
    if ending := [each for each in decided if each.transactional_id in orphans]:
        await port.complete(ending, commit=True)
        # Under the same id another one may be open by now, of a later batch, so look again.
        orphans = await find()
    await asyncio.gather(*(port.fence(each) for each in orphans))
