"""A simulation of Spark, its tasks and a broker's transactions, for tests of the exactly-once sink.

A seed decides everything. Drivers and tasks are coroutines. Their requests wait in a list, from which the seed picks
the next one to execute. A driver that dies leaves requests in flight and tasks running. A retried record may reach the
log a second time, much later, and the log may be compacted at any time up to any offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.client.prepared_transaction import PreparedTransaction
from penstock.spark.sink.batch_write import BATCH
from penstock.spark.sink.decision import (
    Entry,
    Ledger,
    SinkStopped,
    TaskAttempt,
    TaskResult,
    ids_of,
    key_of,
    leftover_ids,
    next_copy,
    of_json,
    recalled,
    to_json,
)
from penstock.spark.sink.protocol import Assignment, abort, abort_write, assign, commit, hand_over, retire

SINK = "query"
ROWS_MAX = 12


def prefix_of(run: str) -> str:
    """A user changes the prefix between runs."""
    return "ours" if run.endswith(("1", "4", "7")) else "penstock"


class Died(Exception):
    """A task was killed."""


class Unreachable(Died):
    """No response from the cluster, whether it executed the request or not."""


class Conflict(Exception):
    """Spark's checkpoint already holds what a driver is about to write: there are two drivers."""


@dataclass
class Transaction:
    epoch: int = 0
    rows: list[int] | None = None


class World:
    """A broker, a checkpoint, and all requests in flight."""

    def __init__(self, rng: random.Random, *, times_out: bool) -> None:
        self.rng = rng
        self.is_calm = False
        self.times_out = times_out
        self.gives_same_tasks = times_out
        """A query whose transactions may time out must give the same rows in the same tasks again."""
        self.log: list[tuple[int, str, bytes]] = []
        """Offset, key and value."""
        self.appended = 0
        self.recalls = 0
        self.transactions: dict[str, Transaction] = {}
        self.outcomes: dict[tuple[str, int], bool] = {}
        self.committed: Counter[int] = Counter()
        self.pending: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self.offsets: dict[int, tuple[int, int, int]] = {}
        self.commits: set[int] = set()
        self.row_count = 0

    def rows_of(self, batch: int) -> range:
        start, end, _ = self.offsets[batch]
        return range(start, end)

    def ask(self, operation: Callable[[], Any]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.pending.append((operation, future))
        return future

    def happen(self) -> None:
        """One request in flight reaches the broker, or never does because its sender is dead."""
        operation, future = self.pending.pop(self.rng.randrange(len(self.pending)))
        if future.cancelled():
            if self.rng.random() < 0.5:
                with contextlib.suppress(Died):
                    operation()
            return
        try:
            result = None
            is_lost = not self.is_calm and self.rng.random() < 0.03
            times = (
                self.rng.choice([0, 1]) if is_lost else self.rng.choice([1] * 20 + [2])
            )  # retried by the client
            for _ in range(times):
                result = operation()
            if is_lost:
                raise Unreachable
        except Died as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def end(self, transactional_id: str, *, is_commit: bool) -> None:
        transaction = self.transactions[transactional_id]
        assert transaction.rows is not None
        if is_commit:
            self.committed.update(transaction.rows)
        self.outcomes[transactional_id, transaction.epoch] = is_commit
        transaction.rows = None
        transaction.epoch += 1

    def time_out(self) -> None:
        if self.times_out and self.open:
            self.end(self.rng.choice(sorted(self.open)), is_commit=False)

    # -- requests of the protocol

    async def append(self, entry: Entry) -> int:
        if not self.is_calm and self.rng.random() < 0.05:  # the response is lost, so it is sent again
            lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            lost.cancel()
            self.pending.append((functools.partial(self._append, entry), lost))
            entry = next_copy(entry)
        return int(await self.ask(lambda: self._append(entry)))

    def _append(self, entry: Entry) -> int:
        offset = self.appended
        self.appended += 1
        self.log.append((offset, key_of(entry, str(offset)), to_json(entry)))
        return offset

    def compact(self) -> None:
        """Up to some offset, only the last record of each key stays."""
        end = self.rng.randint(0, len(self.log))
        last = {key: offset for offset, key, _ in self.log[:end]}
        self.log = [record for record in self.log[:end] if last[record[1]] == record[0]] + self.log[end:]

    async def read(self, ledger: Ledger, *, through: int = -1) -> Ledger:
        """In two responses, between which anything may happen."""
        end: int = await self.ask(lambda: self.appended)
        assert through < end
        middle = self.rng.randint(ledger.position, end)
        for until in (middle, end):
            found = await self.ask(functools.partial(self._fetch, ledger.position, until))
            ledger = ledger.after_all((offset, of_json(value)) for offset, _, value in found)
            ledger = replace(ledger, position=until)
        return ledger

    async def recall(self, sink: str, run: str) -> Ledger:
        ledger: Ledger = await self.ask(lambda: self._recall(sink, run))
        return ledger

    def _recall(self, sink: str, run: str) -> Ledger:
        """Reading from any offset on gives the same result as the whole log."""
        start = self.rng.randint(0, self.appended)
        tail = [(offset, of_json(value)) for offset, _, value in self._fetch(start, self.appended)]
        ledger = recalled(sink, run, start, tail)
        if ledger is None:
            return Ledger(sink)
        assert (ledger.holder, ledger.decision) == (self.ledger.holder, self.ledger.decision)
        self.recalls += 1
        return ledger

    def _fetch(self, start: int, end: int) -> list[tuple[int, str, bytes]]:
        return [record for record in self.log if start <= record[0] < end]

    async def complete(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[bool]:
        asked = [self.ask(functools.partial(self._complete, each, commit)) for each in transactions]
        return list(await asyncio.gather(*asked))

    def _complete(self, prepared: PreparedTransaction, is_commit: bool) -> bool:
        current = self.transactions[prepared.transactional_id]
        if current.epoch == prepared.producer_epoch and current.rows is not None:
            self.end(prepared.transactional_id, is_commit=is_commit)
        return self.outcomes[prepared.transactional_id, prepared.producer_epoch] is is_commit

    async def open_ids(self, sink: str, prefixes: Collection[str]) -> list[str]:
        begins = tuple(ids_of(prefix, sink) for prefix in prefixes)
        found: list[str] = await self.ask(lambda: [name for name in self.open if name.startswith(begins)])
        return found

    @property
    def ledger(self) -> Ledger:
        """The state according to the whole log."""
        return Ledger(SINK).after_all((offset, of_json(value)) for offset, _, value in self.log)

    @property
    def open(self) -> list[str]:
        return [name for name, each in self.transactions.items() if each.rows is not None]

    def left_by(self, run: str) -> list[str]:
        return leftover_ids(self.open, prefixes={prefix_of(run)}, sink=SINK, runs={run})

    async def fence(self, transactional_id: str) -> None:
        await self.initialize(transactional_id)

    async def initialize(self, transactional_id: str) -> int:
        return int(await self.ask(lambda: self._initialize(transactional_id)))

    def _initialize(self, transactional_id: str) -> int:
        transaction = self.transactions.setdefault(transactional_id, Transaction())
        if transaction.rows is not None:
            self.end(transactional_id, is_commit=False)
        transaction.epoch += 1
        return transaction.epoch

    async def produce(self, transactional_id: str, epoch: int, rows: list[int]) -> None:
        await self.ask(lambda: self._produce(transactional_id, epoch, rows))

    def _produce(self, transactional_id: str, epoch: int, rows: list[int]) -> None:
        transaction = self.transactions[transactional_id]
        if transaction.epoch != epoch:
            raise Died("fenced")
        have = transaction.rows or []
        transaction.rows = have + [row for row in rows if row not in have]  # idempotence


@dataclass
class Driver:
    """One run of the query, with its tasks."""

    world: World
    run: str
    batches: int
    """It ends by itself after so many batches."""
    task_failures: float = 0.1
    speculation: float = 0.1
    """How often an attempt has a rival, whose transaction may stay open until the next clean-up."""
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    ledger: Ledger | None = None
    main: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        self.main = self._spawn(self.live())
        return self.main

    @property
    def prefix(self) -> str:
        return prefix_of(self.run)

    async def live(self) -> None:
        for _ in range(self.batches):
            batch, start, end, task_count = self._next_batch()
            try:
                done = await self._write(batch, start, end, task_count)
            except SinkStopped:
                await abort(
                    self.world,
                    [],
                    batch,
                    prefix=self.prefix,
                    task_attempt=TaskAttempt(SINK, self.run, batch, 0),
                )
                raise
            try:
                await commit(self.world, done, batch, prefix=self.prefix)
            except (SinkStopped, Unreachable) as error:
                await abort(self.world, done, batch, prefix=self.prefix)
                if not self._is_swallowed(error, batch):
                    raise
            if batch in self.world.commits:
                raise Conflict
            self.world.commits.add(batch)

    def _is_swallowed(self, error: Exception, batch: int) -> bool:
        """A `foreachBatch` function may ignore an error; then Spark considers the batch written. If it was decided, it
        must be written, unless its transactions time out before anyone completes them."""
        decision = self.world.ledger.decision
        is_decided = decision is not None and decision.batch >= batch and not self.world.gives_same_tasks
        return isinstance(error, Unreachable) and is_decided and self.world.rng.random() < 0.5

    def _next_batch(self) -> tuple[int, int, int, int]:
        world, rng = self.world, self.world.rng
        batch = max(world.offsets, default=-1)
        if batch < 0 or batch in world.commits:
            start = world.row_count
            world.row_count += rng.randrange(ROWS_MAX)
            batch += 1
            world.offsets[batch] = (start, world.row_count, rng.randint(1, 4))
        start, end, task_count = world.offsets[batch]
        return batch, start, end, task_count if world.gives_same_tasks else rng.randint(1, 4)

    async def _write(self, batch: int, start: int, end: int, task_count: int) -> list[TaskResult]:
        running = [
            self._spawn(self._task(batch, partition, list(range(start + partition, end, task_count))))
            for partition in range(task_count)
        ]
        return list(await asyncio.gather(*running))

    async def _task(self, batch: int, partition: int, rows: list[int]) -> TaskResult:
        """Like Spark: attempts one after another, sometimes two at once. The first to finish counts."""
        attempt = 0
        while True:
            copies = 2 if self.world.rng.random() < self.speculation else 1
            attempts = [
                self._spawn(
                    self._attempt(TaskAttempt(SINK, self.run, batch, partition, attempt + copy), rows)
                )
                for copy in range(copies)
            ]
            attempt += copies
            while attempts:
                await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
                ended = [each for each in attempts if each.done()]  # in an order that the seed decides
                attempts = [each for each in attempts if not each.done()]
                for each in ended:
                    if each.exception() is None:
                        return each.result()  # type: ignore[no-any-return]  # the others go on as they like
                    if not isinstance(each.exception(), Died):
                        raise each.exception()  # type: ignore[misc]

    async def _attempt(self, task_attempt: TaskAttempt, rows: list[int]) -> TaskResult:
        self._may_die()
        ledger = self.ledger if self.world.rng.random() < 0.7 else None
        assignment: Assignment = await assign(self.world, ledger, task_attempt, prefix=self.prefix)
        self.ledger = assignment.ledger
        self._may_die()
        if assignment.is_written or not rows:
            return assignment.result(None, 0 if not assignment.is_written else len(rows))
        transactional_id = task_attempt.transactional_id(self.prefix)
        epoch = await self.world.initialize(transactional_id)
        for cut in (slice(0, len(rows) // 2), slice(len(rows) // 2, None)):
            self._may_die()
            await self.world.produce(transactional_id, epoch, rows[cut])
        self._may_die()
        prepared = PreparedTransaction(transactional_id, 1, epoch)
        return await hand_over(self.world, assignment, prepared, len(rows))

    async def retire(self) -> None:
        await retire(self.world, SINK, self.run, prefix=self.prefix)

    def lose(self, share: float) -> None:
        """The driver dies, with about as many of its tasks."""
        rng = self.world.rng
        for task in self.tasks:
            if task is self.main or rng.random() < share:
                task.cancel()

    def _may_die(self) -> None:
        if self.world.rng.random() < self.task_failures:
            raise Died

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(lambda each: each.cancelled() or each.exception())
        self.tasks.append(task)
        return task


ROWS = range(9)
"""What every job of a batch write writes."""
LATE_PARTITION = 100  # above the numbers of all tasks that a job starts itself


class Job(Driver):
    """A driver that writes the same rows as batch 0 and ends. Its tasks may be split differently each time."""

    async def live(self) -> None:
        task_count = self.world.rng.randint(1, 4)
        try:
            done = await self._write(BATCH, ROWS.start, ROWS.stop, task_count)
            await commit(self.world, done, BATCH, prefix=self.prefix)
        except (SinkStopped, Unreachable):
            await self.abort()
            raise

    async def abort(self) -> None:
        await abort_write(self.world, SINK, self.run, prefix=self.prefix)

    def cancel(self) -> asyncio.Task[None]:
        """The user cancels the job. Spark calls `abort` while tasks still run."""
        assert self.main is not None
        self.main.cancel()
        return self._spawn(self.abort())

    def start_late_task(self) -> asyncio.Task[TaskResult]:
        """A task that an executor starts late, perhaps after the job has failed."""
        partition = LATE_PARTITION + len(self.tasks)  # attempts never share a transactional id
        return self._spawn(self._attempt(TaskAttempt(SINK, self.run, BATCH, partition), list(ROWS)))


@dataclass
class Clock:
    """Lets time pass."""

    world: World
    seed: int

    async def pass_by(self, count: int) -> None:
        world = self.world
        for _ in range(count):
            for _ in range(8):  # run every coroutine until all wait for the cluster
                await asyncio.sleep(0)
            if world.pending:
                world.happen()
            if world.rng.random() < 0.01:
                world.time_out()
            if world.rng.random() < 0.05:
                world.compact()

    async def finish(self, task: asyncio.Future[Any]) -> BaseException | None:
        for _ in range(20_000):
            if task.done():
                return asyncio.CancelledError() if task.cancelled() else task.exception()
            await self.pass_by(1)
        raise AssertionError(f"seed {self.seed}: it does not end")
