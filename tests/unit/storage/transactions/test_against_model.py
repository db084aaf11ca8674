"""A log with transactions and a naive model of it, driven together through rolls, truncations, deletions, restarts and
crashes.

At any moment read_committed consumers stop at the first offset of the earliest transaction that is open or whose
marker is not committed. After skipping aborted transactions as clients do, they see exactly the records that were
committed or belong to no transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.storage import (
    HeldWorkers,
    Place,
    append,
    append_in_transaction,
    append_marker,
    make_batch,
)
from penstock.records import kernel
from penstock.records.control import read_marker
from penstock.storage.log import Log
from penstock.storage.settings import NEVER, LogSettings
from penstock.storage.transactions.aborted import AbortedTransaction

T = TypeVar("T")

PRODUCERS = (1, 2, 3)


@dataclass(frozen=True)
class Batch:
    """A batch in the model: data of a transaction, data of none, or a marker."""

    base_offset: int
    end_offset: int
    producer_id: int = -1
    is_commit: bool | None = None
    """The marker; None for data."""


@dataclass
class Transaction:
    producer_id: int
    first_offset: int
    marker_offset: int | None = None
    is_commit: bool = False


def transactions_of(batches: list[Batch]) -> list[Transaction]:
    """All transactions in the batches, in the order in which they began; slow and obviously right."""
    found: list[Transaction] = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        begun = [t for t in found if t.producer_id == batch.producer_id and t.marker_offset is None]
        if batch.is_commit is None and not begun:
            found.append(Transaction(batch.producer_id, batch.base_offset))
        elif batch.is_commit is not None and begun:
            begun[0].marker_offset, begun[0].is_commit = batch.base_offset, batch.is_commit
    return found


def first_unstable(batches: list[Batch], *, high_watermark: int, start_offset: int) -> int | None:
    unstable = [
        transaction.first_offset
        for transaction in transactions_of(batches)
        if transaction.marker_offset is None or transaction.marker_offset >= high_watermark
    ]
    return max(min(unstable), start_offset) if unstable else None


def visible(batches: list[Batch], *, start_offset: int, end_offset: int) -> list[int]:
    """Base offsets of the batches from `start_offset` on that a read_committed consumer must see."""
    aborted = [t for t in transactions_of(batches) if t.marker_offset is not None and not t.is_commit]
    return [
        batch.base_offset
        for batch in batches
        if batch.is_commit is None
        and batch.end_offset > start_offset
        and batch.end_offset <= end_offset
        and not any(
            t.producer_id == batch.producer_id
            and t.first_offset <= batch.base_offset < (t.marker_offset or 0)
            for t in aborted
        )
    ]


def consume(log: Log, offset: int, *, end_offset: int, max_bytes: int) -> list[int]:
    """Base offsets of the batches whose records a client returns, by the algorithm of clients."""
    shown: list[int] = []
    while True:
        aborted: list[AbortedTransaction] = []
        piece = log.read(
            offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=True, aborted=aborted
        )
        if piece is None:
            return shown
        data, position = piece.read(), 0
        pending = sorted(aborted, key=lambda transaction: transaction.first_offset)
        skipped: set[int] = set()
        for header in kernel.check_batches(data):
            while pending and pending[0].first_offset <= header.last_offset:
                skipped.add(pending.pop(0).producer_id)
            if header.is_control:
                marker = read_marker(data, position)
                assert marker is not None
                if not marker.is_commit:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                shown.append(header.base_offset)
            position += header.size_bytes
            offset = header.next_offset


class TransactionMachine(RuleBasedStateMachine):
    place: Place
    log: Log

    @initialize(
        segment_bytes=st.sampled_from([200, 500, 1 << 20]),
        flush_messages=st.sampled_from([1, NEVER]),
        seed=st.integers(0, 1 << 30),
    )
    def begin(self, segment_bytes: int, flush_messages: int, seed: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.workers = HeldWorkers()
        self.place = Place(
            settings=LogSettings(
                segment_bytes=segment_bytes,
                index_interval_bytes=100,
                flush_messages=flush_messages,
                retention_ms=-1,
                file_delete_delay_ms=0,
            ),
            workers=self.workers,
            seed=seed,
        )
        self.log = self.run(self._create())
        self.batches: list[Batch] = []
        """All batches since the first, including those that retention deleted."""
        self.forgets = False
        """After a power cut that followed a deletion, the first offsets of transactions may be unknown."""

    async def _create(self) -> Log:
        log = self.place.create()
        await self._with_workers(log.flush())
        return log

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def call(self, action: Callable[[], T]) -> T:
        async def act() -> T:
            return action()

        return self.run(act())

    async def _with_workers(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(work)
        while not task.done():
            await self.workers.release()
            await asyncio.sleep(0)
        return task.result()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.run(self._with_workers(self.place.directory.close()))
            self.loop.close()

    # Writing

    def _note(
        self, offset: int, producer_id: int = -1, is_commit: bool | None = None, count: int = 1
    ) -> None:
        self.batches.append(Batch(offset, offset + count, producer_id, is_commit))

    @rule(count=st.integers(1, 3))
    def append_plainly(self, count: int) -> None:
        info = self.call(lambda: append(self.log, make_batch(count)))
        self._note(info.first_offset, count=count)

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, 3))
    def append_in_transaction(self, producer_id: int, count: int) -> None:
        known = self.log.producers.get(producer_id)
        sequence = known.last_sequence + 1 if known is not None else 0
        info = self.call(lambda: append_in_transaction(self.log, producer_id, sequence, count=count))
        self._note(info.first_offset, producer_id, count=count)

    @rule(producer_id=st.sampled_from(PRODUCERS), is_commit=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        info = self.call(lambda: append_marker(self.log, producer_id, is_commit=is_commit))
        self._note(info.first_offset, producer_id, is_commit)

    # Watermarks

    @rule()
    def commit_all(self) -> None:
        self.log.high_watermark = self.log.end_offset

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.log.high_watermark = data.draw(
            st.integers(self.log.high_watermark, self.log.end_offset), label="high watermark"
        )

    @rule()
    def checkpoint(self) -> None:
        self.run(self._with_workers(self.place.directory.checkpoint_high_watermarks()))

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.start_offset, self.log.high_watermark), label="start")
        self.call(lambda: self.log.advance_start(offset))

    @rule()
    def drop_segments_before_the_start(self) -> None:
        self.call(lambda: self.log.enforce_retention(0, high_watermark=self.log.high_watermark))

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        low = max(self.log.start_offset, self.log.high_watermark)
        offset = data.draw(st.integers(low, self.log.end_offset), label="end")
        self.run(self._with_workers(self.log.truncate(offset)))
        self.batches = [batch for batch in self.batches if batch.end_offset <= self.log.end_offset]

    # Syncs, shutdowns and crashes

    @rule()
    def let_workers_work(self) -> None:
        self.run(self.workers.release())

    @rule()
    def flush(self) -> None:
        self.run(self._with_workers(self.log.flush()))

    @rule()
    def restart(self) -> None:
        high_watermark = self.log.high_watermark
        self.log = self.run(self._with_workers(self.place.restart()))
        assert self.log.high_watermark == high_watermark
        assert not self.place.reports

    @rule()
    def kill(self) -> None:
        self.workers.held.clear()
        self.log = self.run(self._with_workers(self.place.kill()))

    @rule()
    def crash(self) -> None:
        self.workers.held.clear()
        self.forgets = self.forgets or self.log.start_offset > 0
        self.log = self.run(self._with_workers(self.place.crash()))
        self.batches = [batch for batch in self.batches if batch.end_offset <= self.log.end_offset]

    # Invariants

    @invariant()
    def readers_stop_before_what_is_undecided(self) -> None:
        if not hasattr(self, "batches"):
            return
        log = self.log
        where = {"high_watermark": log.high_watermark, "start_offset": log.start_offset}
        expected = first_unstable(self.batches, **where)
        if log.first_unstable_offset != expected:
            assert self.forgets
            left = [batch for batch in self.batches if batch.end_offset > log.start_offset]
            assert log.first_unstable_offset == first_unstable(left, **where)

    @invariant()
    def readers_see_what_was_committed_and_nothing_else(self) -> None:
        if hasattr(self, "batches"):
            self._consume(self.log.start_offset, max_bytes=400)

    @rule(data=st.data(), max_bytes=st.integers(1, 1000))
    @precondition(lambda self: self.batches)
    def consume(self, data: st.DataObject, max_bytes: int) -> None:
        self._consume(data.draw(st.integers(self.log.start_offset, self._stable_offset())), max_bytes)

    def _consume(self, start: int, max_bytes: int) -> None:
        stable_offset = self._stable_offset()
        shown = consume(self.log, start, end_offset=stable_offset, max_bytes=max_bytes)
        assert shown == visible(self.batches, start_offset=start, end_offset=stable_offset)

    def _stable_offset(self) -> int:
        unstable_offset = self.log.first_unstable_offset
        if unstable_offset is None:
            return self.log.high_watermark
        return min(unstable_offset, self.log.high_watermark)

    @invariant()
    def aborted_transactions_are_listed(self) -> None:
        if hasattr(self, "batches"):
            self._list_aborted(self.log.start_offset, self.log.end_offset)

    @rule(data=st.data())
    @precondition(lambda self: self.batches)
    def list_aborted(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log.start_offset, self.log.end_offset), label="start")
        self._list_aborted(start, data.draw(st.integers(start, self.log.end_offset), label="end"))

    def _list_aborted(self, start: int, end: int) -> None:
        aborted = [
            t for t in transactions_of(self.batches) if t.marker_offset is not None and not t.is_commit
        ]
        expected = [
            AbortedTransaction(t.producer_id, t.first_offset)
            for t in sorted(aborted, key=lambda transaction: transaction.marker_offset or 0)
            if (t.marker_offset or 0) >= start and t.first_offset < end
        ]
        found = self.log.reader.aborted_transactions(start, end)
        if self.forgets:
            assert {t.producer_id for t in found} <= {t.producer_id for t in expected}
        else:
            assert found == expected

    @rule()
    @precondition(lambda self: self.batches)
    def copy(self) -> None:
        """A follower that copies the log sees the same."""
        log = self.log
        copy = self.call(lambda: Place(settings=LogSettings(segment_bytes=300)).create())
        piece = log.read(log.start_offset, max_bytes=1 << 20, end_offset=log.end_offset, at_least_one=True)
        first_offset = (
            kernel.read_header(piece.read(), 0).base_offset if piece is not None else log.end_offset
        )
        self.run(copy.truncate_fully(first_offset))
        while piece is not None:
            batches = memoryview(bytearray(piece.read()))
            self.call(lambda batches=batches: copy.append_as_follower(batches, now_ms=0))
            piece = log.read(copy.end_offset, max_bytes=1 << 20, end_offset=log.end_offset, at_least_one=True)
        start = max(log.start_offset, copy.start_offset)
        shown = consume(copy, start, end_offset=copy.end_offset, max_bytes=300)
        assert shown == visible(self.batches, start_offset=start, end_offset=copy.end_offset)


TransactionMachine.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTransactionsAgainstModel = TransactionMachine.TestCase
