"""A simulation of Spark, its tasks and a broker's transactions, for tests of the exactly-once sink.

A seed decides everything. Drivers and tasks are coroutines; whatever they ask of the cluster waits in a list, from
which the seed picks what happens next. A driver that dies leaves requests under way and tasks running. What was sent to
the log again may come to it a second time, much later, and the log is compacted at any time up to any place.
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

from penstock.client.producer.prepared import PreparedTransaction
from penstock.spark.sink.batch_write import BATCH
from penstock.spark.sink.decision import (
    Done,
    Entry,
    Ledger,
    Place,
    SinkStopped,
    ids_of,
    key_of,
    left_behind,
    of_json,
    recalled,
    sent_again,
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
    """The cluster gave no answer, whether it did what it was asked or not."""


class Conflict(Exception):
    """Spark's checkpoint holds already what a driver is about to write: there are two of them."""


@dataclass
class Transaction:
    epoch: int = 0
    rows: list[int] | None = None


class World:
    """A broker, a checkpoint, and all that is under way."""

    def __init__(self, rng: random.Random, *, times_out: bool) -> None:
        self.rng = rng
        self.is_calm = False
        self.times_out = times_out
        self.gives_same_tasks = times_out
        """A query whose transactions may time out has to give the same rows in the same tasks again."""
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
        """One thing that is under way reaches the broker, or never does because who asked is dead."""
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
            )  # repeated by the client
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

    # -- what the protocol asks

    async def append(self, entry: Entry) -> int:
        if not self.is_calm and self.rng.random() < 0.05:  # no answer comes, so it is sent again
            lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            lost.cancel()
            self.pending.append((functools.partial(self._append, entry), lost))
            entry = sent_again(entry)
        return int(await self.ask(lambda: self._append(entry)))

    def _append(self, entry: Entry) -> int:
        offset = self.appended
        self.appended += 1
        self.log.append((offset, key_of(entry, str(offset)), to_json(entry)))
        return offset

    def compact(self) -> None:
        """Up to some place, of each key the last record stays."""
        end = self.rng.randint(0, len(self.log))
        last = {key: offset for offset, key, _ in self.log[:end]}
        self.log = [record for record in self.log[:end] if last[record[1]] == record[0]] + self.log[end:]

    async def read(self, ledger: Ledger, *, through: int = -1) -> Ledger:
        """In two answers, between which anything may happen."""
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
        """What is recalled, from whatever place on, is what the whole log says."""
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
        """What the whole log says."""
        return Ledger(SINK).after_all((offset, of_json(value)) for offset, _, value in self.log)

    @property
    def open(self) -> list[str]:
        return [name for name, each in self.transactions.items() if each.rows is not None]

    def left_by(self, run: str) -> list[str]:
        return left_behind(self.open, prefixes={prefix_of(run)}, sink=SINK, runs={run})

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
    """After so many it ends by itself."""
    task_failures: float = 0.1
    speculation: float = 0.1
    """How often an attempt gets a rival, whose transaction may stay open until the next tidying."""
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
                await abort(self.world, [], batch, prefix=self.prefix, place=Place(SINK, self.run, batch, 0))
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
        """A function of `foreachBatch` may pass over an error, and then Spark takes the batch for written. If it was
        decided, it has to be, unless its transactions time out before anybody looks after them."""
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

    async def _write(self, batch: int, start: int, end: int, task_count: int) -> list[Done]:
        running = [
            self._spawn(self._task(batch, partition, list(range(start + partition, end, task_count))))
            for partition in range(task_count)
        ]
        return list(await asyncio.gather(*running))

    async def _task(self, batch: int, partition: int, rows: list[int]) -> Done:
        """As Spark does: attempts one after another, at times two at once, of which the first that ends counts."""
        attempt = 0
        while True:
            copies = 2 if self.world.rng.random() < self.speculation else 1
            attempts = [
                self._spawn(self._attempt(Place(SINK, self.run, batch, partition, attempt + copy), rows))
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

    async def _attempt(self, place: Place, rows: list[int]) -> Done:
        self._may_die()
        ledger = self.ledger if self.world.rng.random() < 0.7 else None
        assignment: Assignment = await assign(self.world, ledger, place, prefix=self.prefix)
        self.ledger = assignment.ledger
        self._may_die()
        if assignment.is_written or not rows:
            return assignment.done(None, 0 if not assignment.is_written else len(rows))
        transactional_id = place.transactional_id(self.prefix)
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
        """The driver dies, and of its tasks about as many."""
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
LATE_PARTITION = 100  # above those of all tasks that a job starts by itself


class Job(Driver):
    """A driver that writes the same rows as batch 0 and ends. Its tasks may be cut in another way each time."""

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

    def start_late_task(self) -> asyncio.Task[Done]:
        """A task that an executor starts late, perhaps after the job has failed."""
        partition = LATE_PARTITION + len(self.tasks)  # attempts never share a transactional id
        return self._spawn(self._attempt(Place(SINK, self.run, BATCH, partition), list(ROWS)))


@dataclass
class Turns:
    """Lets time pass."""

    world: World
    seed: int

    async def pass_by(self, count: int) -> None:
        world = self.world
        for _ in range(count):
            for _ in range(8):  # whoever can go on does, until all wait for the cluster
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
        raise AssertionError(f"seed {self.seed}: it goes on and on")
