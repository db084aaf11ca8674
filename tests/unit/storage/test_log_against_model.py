"""A log and a list of batches, driven together through everything that can happen to a log, crashes included.

After a power cut every batch below the recovery point is there, the rest is what was written, in order, and no batch
is torn. After kill -9 nothing is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.storage import HeldWorkers, Place, make_batch, read_all
from penstock.records import kernel
from penstock.storage.errors import OutOfOrderSequence
from penstock.storage.log import Log
from penstock.storage.settings import NEVER, LogSettings

PRODUCERS = (7, 8)


@dataclass(frozen=True)
class Batch:
    """A batch in the model; every batch has different bytes, so its CRC identifies it."""

    base_offset: int
    count: int
    crc: int
    timestamp: int
    leader_epoch: int
    producer_id: int
    sequence: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count


class LogMachine(RuleBasedStateMachine):
    place: Place
    log: Log

    @initialize(
        segment_bytes=st.sampled_from([400, 1000, 1 << 20]),
        interval=st.sampled_from([0, 150, 4096]),
        flush_messages=st.sampled_from([1, 5, NEVER]),
        seed=st.integers(0, 1 << 30),
    )
    def begin(self, segment_bytes: int, interval: int, flush_messages: int, seed: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.workers = HeldWorkers()
        configuration = LogSettings(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            flush_messages=flush_messages,
            retention_ms=-1,
            file_delete_delay_ms=0,
        )
        self.place = Place(settings=configuration, workers=self.workers, seed=seed)
        self.log = self.run(self._create())
        self.batches: list[Batch] = []
        """The expected log from its very first batch on, including batches that retention deleted."""
        self.empty_at = 0
        """Where the log is when it is empty."""
        self.epoch = 0
        self.serial = 0
        self.start_offset = 0

    async def _create(self) -> Log:
        log = self.place.create()
        # A folder that was never synced may vanish as a whole; here the log must be found again.
        await self._with_workers(log.flush())
        return log

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def _with_workers(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = self.loop.create_task(work)
        while not task.done():
            await self.workers.release()
            await asyncio.sleep(0)
        return task.result()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.run(self._with_workers(self.place.directory.close()))
            self.loop.close()

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.empty_at

    # Writing

    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        timestamp=st.integers(0, 10_000),
        padding=st.integers(0, 60),
        new_epoch=st.booleans(),
    )
    def append(self, counts: list[int], timestamp: int, padding: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        joined = bytearray()
        for count in counts:
            joined += self._make_batch(count, timestamp, padding)
        self._append(joined)

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, 3), timestamp=st.integers(0, 10_000))
    def append_idempotently(self, producer_id: int, count: int, timestamp: int) -> None:
        sequence = self._next_sequence(producer_id)
        batch = self._make_batch(
            count, timestamp, 0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        self._append(batch)
        self.last_sent = bytes(batch)

        assert self.run(self._on_loop(lambda: self._try(bytearray(batch)))).is_duplicate
        gap = self._make_batch(
            1, timestamp, 0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence + count + 1
        )
        with pytest.raises(OutOfOrderSequence):
            self.run(self._on_loop(lambda: self._try(gap)))

    def _make_batch(self, count: int, timestamp: int, padding: int, **fields: Any) -> bytearray:
        self.serial += 1
        value = f"{self.serial:08d}".encode() + b"." * padding
        return make_batch(count, timestamp=timestamp, value=value, **fields)

    def _try(self, batches: bytearray) -> Any:
        headers = kernel.read_headers(batches)
        return self.log.append(memoryview(batches), headers, leader_epoch=self.epoch, now_ms=0)

    def _append(self, batches: bytearray) -> None:
        first_offset = self.end_offset
        if len(batches) > self.place.settings.segment_bytes:
            return
        info = self.run(self._on_loop(lambda: self._try(batches)))
        offset = first_offset
        for header in kernel.read_headers(batches):
            self.batches.append(
                Batch(
                    offset,
                    header.last_offset_delta + 1,
                    header.crc,
                    header.max_timestamp,
                    self.epoch,
                    header.producer_id,
                    header.base_sequence,
                )
            )
            offset += header.last_offset_delta + 1
        assert (info.first_offset, info.last_offset) == (first_offset, self.end_offset - 1)

    def _next_sequence(self, producer_id: int) -> int:
        known = self.log.producers.get(producer_id)
        return known.last_sequence + 1 if known is not None else 0

    async def _on_loop(self, work: Any) -> Any:
        return work()

    # The disk

    @rule()
    def let_workers_work(self) -> None:
        self.run(self.workers.release())

    @rule()
    def flush(self) -> None:
        self.run(self._with_workers(self.log.flush()))
        assert self.log.durability.recovery_point == self.log.durability.end_offset == self.end_offset

    # Truncating and deleting

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset), label="offset")
        self.run(self._with_workers(self.log.truncate(offset)))
        if offset == self.end_offset:
            return
        self.batches = [batch for batch in self.batches if batch.end_offset <= offset]
        self._empty_if_needed()
        self.start_offset = self.log.start_offset

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset), label="offset")
        self.run(self._on_loop(lambda: self.log.advance_start(offset)))
        self.start_offset = offset

    @rule(keep=st.integers(0, 2000))
    def drop_old_segments(self, keep: int) -> None:
        async def enforce() -> None:
            self.log.settings = LogSettings(
                **{
                    **{f: getattr(self.place.settings, f) for f in self.place.settings.__dataclass_fields__},
                    "retention_bytes": keep,
                }
            )
            self.log.enforce_retention(0, high_watermark=self.end_offset)
            self.log.settings = self.place.settings

        self.run(enforce())
        assert self.log.start_offset >= self.start_offset
        self.start_offset = self.log.start_offset

    # Reading

    @rule(data=st.data(), max_bytes=st.integers(1, 1500), at_least_one=st.booleans())
    @precondition(lambda self: self.start_offset < self.end_offset)
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset), label="offset")
        end_offset = data.draw(st.integers(offset, self.end_offset), label="end_offset")
        found = self.log.read(offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=at_least_one)
        expected = [b for b in self.batches if b.end_offset > offset and b.end_offset <= end_offset]
        if found is None:
            assert not expected or not at_least_one
            return
        headers = kernel.check_batches(found.read())
        assert [h.crc for h in headers] == [b.crc for b in expected[: len(headers)]]
        assert headers
        assert len(found) <= max_bytes or (at_least_one and len(headers) == 1)

    @rule(timestamp=st.integers(0, 10_010))
    def look_up_by_time(self, timestamp: int) -> None:
        found = self.log.reader.offset_for_timestamp(timestamp, end_offset=self.end_offset)
        expected = None
        for batch in self.batches:
            first_timestamp = batch.timestamp - (batch.count - 1)
            for i in range(batch.count):
                offset = batch.base_offset + i
                if expected is None and offset >= self.start_offset and first_timestamp + i >= timestamp:
                    expected = offset
        assert (found.offset if found is not None else None) == expected

    # Shutdowns and crashes

    @rule()
    def restart(self) -> None:
        self.log = self.run(self._with_workers(self.place.restart()))
        assert not self.place.reports
        self._check_content(self.batches)
        assert self.log.start_offset == self.start_offset

    @rule()
    def kill(self) -> None:
        self.workers.held.clear()
        self.log = self.run(self._with_workers(self.place.kill()))
        self._check_content(self.batches)
        assert all(not report.is_cut for report in self.place.reports)
        assert self.log.start_offset <= self.start_offset
        self.start_offset = self.log.start_offset

    @rule()
    def crash(self) -> None:
        self.workers.held.clear()
        durable = self.log.durability.recovery_point
        self.log = self.run(self._with_workers(self.place.crash()))
        assert self.log.end_offset >= durable
        assert self.log.start_offset <= self.start_offset
        self._check_content(self.batches)
        self.batches = [b for b in self.batches if b.end_offset <= self.log.end_offset]
        self._empty_if_needed()
        self.start_offset = self.log.start_offset
        self._check_producers()

    def _empty_if_needed(self) -> None:
        """A log that lost all records, but knows its log start offset, continues from there."""
        if self.log.end_offset == self.log.segments[0].base_offset:
            self.batches, self.empty_at = [], self.log.end_offset

    def _check_content(self, batches: list[Batch]) -> None:
        """The log has exactly `batches`, from the log start offset to the log end offset."""
        found = [(h.base_offset, h.crc, h.leader_epoch) for h in read_all(self.log)]
        expected = [
            (b.base_offset, b.crc, b.leader_epoch)
            for b in batches
            if b.end_offset > self.log.start_offset and b.end_offset <= self.log.end_offset
        ]
        assert found == expected
        if expected:
            assert batches[[b.crc for b in batches].index(expected[-1][1])].end_offset == self.log.end_offset

    def _check_producers(self) -> None:
        """A producer with a batch in the log is known with its last batch."""
        for producer_id in PRODUCERS:
            written = [
                b for b in self.batches if b.producer_id == producer_id and b.base_offset >= self.start_offset
            ]
            if written:
                known = self.log.producers.get(producer_id)
                assert known is not None
                assert known.batches[-1].last_offset == written[-1].end_offset - 1
                assert known.last_sequence == written[-1].sequence + written[-1].count - 1

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "batches"):
            return
        log = self.log
        assert log.end_offset == self.end_offset
        assert log.start_offset == self.start_offset
        assert log.durability.recovery_point <= log.end_offset
        assert log.durability.end_offset <= log.end_offset
        if self.place.settings.flush_messages == NEVER:
            assert log.durability.end_offset == log.end_offset
        if self.place.settings.flush_messages == 1:
            assert log.durability.end_offset <= max(log.durability.recovery_point, log.start_offset)
        epochs = [b.leader_epoch for b in self.batches if b.end_offset > self.start_offset]
        if epochs and log.end_offset == self.end_offset:
            assert log.epochs.latest == epochs[-1]


LogMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLogAgainstModel = LogMachine.TestCase
