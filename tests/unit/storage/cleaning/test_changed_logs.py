"""Compaction of a log that changes before or while it is compacted: the log keeps its records, and deleted keys do not
return."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from harness.compaction import commit_everything, make_cleaner, records_of, table_of
from harness.storage import (
    NOW_MS,
    QUIET,
    TOPIC_ID,
    InlineWorkers,
    Place,
    SetClock,
    append,
    make_runtime,
    settle,
)
from penstock.records import kernel
from penstock.records.batch import NewRecord
from penstock.runtime import Lane, Workers
from penstock.storage import moving
from penstock.storage.cleaning.cleaner import LogCleaner
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.storage.settings import NEVER, LogSettings
from penstock.storage.store import LogStore
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualLoop, run_virtual

T = TypeVar("T")

SETTINGS = LogSettings(
    segment_bytes=2000, index_interval_bytes=100, compact=True, delete=False, delete_retention_ms=0
)
NO_TIMESTAMP = -1


def put(
    log: Log, key: bytes, value: bytes | None, *, timestamp_ms: int = NOW_MS, leader_epoch: int = 0
) -> None:
    append(log, kernel.build_batch([NewRecord(timestamp_ms, key, value)]), leader_epoch=leader_epoch)


def fill(log: Log, *, count: int, keys: int, prefix: bytes = b"value", leader_epoch: int = 0) -> None:
    for number in range(count):
        value = b"%s-%04d" % (prefix, number)
        put(log, b"key-%03d" % (number % keys), value, leader_epoch=leader_epoch)


def leftovers_of(disk: SimulatedDisk, folder: str) -> list[str]:
    return [name for name in disk.list(folder) if name.endswith((".cleaned", ".swap"))]


class SlowReads(InlineWorkers):
    """Reads of pages that are not in memory wait for `release`."""

    def __init__(self) -> None:
        self._held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._is_slow = True
        self.after_step: Callable[[], None] | None = None
        """Called once, after the first step of a compaction."""

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        if lane is Lane.READ and self._is_slow:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._held.append((work, future))
            return future
        done = super().run(work, lane=lane)
        if lane is Lane.CLEANING and self.after_step is not None:
            call, self.after_step = self.after_step, None
            call()
        return done

    def release(self) -> None:
        assert self._held, "nothing was read"
        self._is_slow = False
        for work, future in self._held:
            future.set_result(work())


def create_slow_log(directory: LogDirectory, disk: SimulatedDisk) -> None:
    """A log that a worker has to read before the cleaner knows whether it is overdue. It is not."""
    settings = dataclasses.replace(SETTINGS, max_compaction_lag_ms=NEVER - 1)
    log = directory.create("slow", 0, TOPIC_ID, settings)
    for number in range(60):
        put(log, b"%d" % number, b"x" * 20, timestamp_ms=NO_TIMESTAMP)
    log.high_watermark = log.end_offset
    log.durability.sync_now()
    disk.evict(log.folder)


async def choose(cleaner: LogCleaner) -> asyncio.Task[bool]:
    """Let the cleaner choose a log. It still has to wait for the slow one."""
    cleaning = asyncio.ensure_future(cleaner.clean_one())
    await settle()
    assert not cleaning.done()
    return cleaning


async def test_a_log_that_is_truncated_after_it_was_chosen_keeps_its_new_records() -> None:
    workers = SlowReads()
    place = Place(settings=SETTINGS, workers=workers)
    log = place.create()
    fill(log, count=100, keys=100)
    await commit_everything(log)
    create_slow_log(place.directory, place.disk)
    cleaner = make_cleaner(place)
    cleaning = await choose(cleaner)

    def continue_writing() -> None:
        for number in range(100):
            put(log, b"while it is compacted %d" % number, b"new", leader_epoch=1)
        log.high_watermark = log.end_offset

    await log.truncate(10)
    for number in range(3):
        put(log, b"new %d" % number, b"new", leader_epoch=1)
    await commit_everything(log)
    workers.after_step = continue_writing
    workers.release()

    assert await cleaning
    if workers.after_step is not None:  # no step was needed to give up
        continue_writing()
    assert [record.offset for record in records_of(log)] == list(range(113))
    assert cleaner.uncleanable == set()


async def test_a_log_that_is_emptied_after_it_was_chosen_can_be_compacted_later() -> None:
    workers = SlowReads()
    place = Place(settings=SETTINGS, workers=workers)
    log = place.create()
    fill(log, count=100, keys=1)
    await commit_everything(log)
    create_slow_log(place.directory, place.disk)
    cleaner = make_cleaner(place)
    cleaning = await choose(cleaner)

    log.advance_start(log.end_offset)
    log.enforce_retention(NOW_MS, high_watermark=log.high_watermark)
    workers.release()

    assert await cleaning
    assert cleaner.uncleanable == set()
    fill(log, count=100, keys=1, prefix=b"new")
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    assert table_of(log) == {b"key-000": b"new-0099"}
    assert len(records_of(log)) < 100


async def test_a_log_whose_policy_changes_after_it_was_chosen_keeps_all_records() -> None:
    workers = SlowReads()
    place = Place(settings=SETTINGS, workers=workers)
    log = place.create()
    fill(log, count=200, keys=9)
    await commit_everything(log)
    create_slow_log(place.directory, place.disk)
    cleaning = await choose(make_cleaner(place))

    log.set_topic_settings(dataclasses.replace(SETTINGS, compact=False))
    workers.release()

    assert await cleaning
    assert len(records_of(log)) == 200


async def test_a_log_whose_policy_changes_while_it_is_compacted_keeps_all_records() -> None:
    workers = SlowReads()
    place = Place(settings=SETTINGS, workers=workers)
    log = place.create()
    fill(log, count=200, keys=9)
    await commit_everything(log)
    workers.after_step = lambda: log.set_topic_settings(dataclasses.replace(SETTINGS, compact=False))

    assert await make_cleaner(place).clean_one()

    assert not log.settings.compact
    assert len(records_of(log)) == 200
    assert leftovers_of(place.disk, log.folder) == []


# Truncation


async def test_a_deleted_key_does_not_return_because_a_truncated_log_was_compacted_before() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    fill(log, count=200, keys=40)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    await log.truncate(20)
    put(log, b"deleted", b"secret", leader_epoch=1)
    put(log, b"deleted", None, leader_epoch=1)

    for _ in range(4):
        fill(log, count=300, keys=40, leader_epoch=1)
        await commit_everything(log)
        place.clock.now_ms += 10
        assert await make_cleaner(place).clean_one()

        assert b"deleted" not in table_of(log)
    assert not [record for record in records_of(log) if record.key == b"deleted"]


@pytest.mark.parametrize("ending", ["none", "restart", "kill", "crash"])
async def test_the_cleaned_offset_of_a_truncated_log_is_not_beyond_its_end(ending: str) -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    fill(log, count=200, keys=200)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    assert place.directory.cleaned_offset(log) > 20

    await log.truncate(20)
    if ending != "none":
        log = await getattr(place, ending)()

    assert log.end_offset == 20
    assert place.directory.cleaned_offset(log) <= log.end_offset


async def test_the_cleaned_offset_is_not_beyond_the_end_that_recovery_found() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    fill(log, count=200, keys=160)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    cleaned_offset = place.directory.cleaned_offset(log)
    damaged = log.segments[1]
    place.disk.overwrite(damaged.path(".log"), 80, b"\xff\xff")
    place.disk.remove(damaged.path(".index"))

    log = await place.kill()

    assert log.end_offset < cleaned_offset
    assert place.directory.cleaned_offset(log) <= log.end_offset


async def test_the_cleaned_offset_is_not_beyond_the_end_that_a_clean_start_found() -> None:
    """A log that is truncated into a gap ends, after a restart, where its last batch ends."""
    place = Place(settings=SETTINGS)
    log = place.create()
    fill(log, count=200, keys=40)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    await log.truncate(20)
    assert place.directory.cleaned_offset(log) == 20

    log = await place.restart()

    assert log.end_offset < 20
    assert place.directory.cleaned_offset(log) <= log.end_offset


# Moves


def make_two_directories(
    disk: SimulatedDisk,
    clock: SetClock,
    *,
    workers: Workers | None = None,
    move_bytes_per_second: int = 1 << 30,
) -> LogStore:
    runtime = make_runtime(disk, clock=clock)
    return LogStore(
        ["/a", "/b"],
        runtime=dataclasses.replace(runtime, workers=workers or runtime.workers),
        settings=QUIET,
        topic_settings=lambda _: SETTINGS,
        node_id=1,
        cluster_id="test",
        move_bytes_per_second=lambda: move_bytes_per_second,
    )


async def test_a_log_that_is_moved_after_it_was_chosen_loses_nothing_in_a_kill() -> None:
    disk, workers = SimulatedDisk(), SlowReads()
    store = make_two_directories(disk, SetClock(), workers=workers)
    await store.start()
    log = store.create("orders", 0, TOPIC_ID, SETTINGS, path="/a")
    fill(log, count=300, keys=40)
    await commit_everything(log)
    create_slow_log(store.directories[0], disk)
    table, end_offset = table_of(log), log.end_offset
    cleaning = await choose(store.cleaner)

    store.move("orders", 0, "/b")
    move = store.move_of("orders", 0)
    assert move is not None
    await move.wait()
    await log.flush()
    workers.release()
    await cleaning

    assert log.directory == "/b"
    assert table_of(log) == table
    disk.kill()
    store = make_two_directories(disk, SetClock())
    await store.start()
    again = store.get("orders", 0)
    assert again is not None
    assert (again.directory, again.end_offset) == ("/b", end_offset)
    assert table_of(again) == table


def test_a_deleted_key_does_not_return_when_a_log_is_compacted_while_it_is_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The copy has the record already, and not yet the tombstone."""
    monkeypatch.setattr(moving, "CHUNK_BYTES", 2000)

    async def main() -> None:
        disk, clock = SimulatedDisk(), SetClock()
        store = make_two_directories(disk, clock, move_bytes_per_second=100)
        await store.start()
        log = store.create("orders", 0, TOPIC_ID, SETTINGS, path="/a")
        put(log, b"deleted", b"secret")
        fill(log, count=200, keys=200)
        put(log, b"deleted", None)
        fill(log, count=100, keys=40)
        await commit_everything(log)
        store.move("orders", 0, "/b")
        move = store.move_of("orders", 0)
        assert move is not None
        while move.copy is None or move.copy.end_offset == 0:
            await asyncio.sleep(0)

        for _ in range(3):
            clock.now_ms += 10
            while await store.cleaner.clean_one():
                pass
            fill(log, count=600, keys=40)
            await commit_everything(log)
        assert move.copy.end_offset < 200
        await move.wait()

        assert log.directory == "/b"
        assert b"deleted" not in table_of(log)
        assert await store.cleaner.clean_one(), "the move has ended"
        assert b"deleted" not in table_of(log)

    run_virtual(VirtualLoop(), main())


# Deletion


class Killed(BaseException):
    """The process ends here."""


async def test_a_log_that_is_created_again_does_not_get_records_of_the_deleted_one() -> None:
    log: Log

    class Workers(InlineWorkers):
        steps = 0

        def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
            nonlocal log
            future = super().run(work, lane=lane)
            if lane is Lane.CLEANING:
                self.steps += 1
                if self.steps == 2:
                    place.directory.delete(log)
                    log = place.create()
                    fill(log, count=200, keys=40, prefix=b"new")
                    log.high_watermark = log.end_offset
                if any(name.endswith(".log.swap") for name in place.disk.list(log.folder)):
                    raise Killed
            return future

    place = Place(settings=SETTINGS, workers=Workers())
    log = place.create()
    fill(log, count=200, keys=40, prefix=b"old")
    await commit_everything(log)

    with contextlib.suppress(Killed):
        await make_cleaner(place).clean_one()
    place.workers = InlineWorkers()
    log = await place.kill()

    assert [record.value for record in records_of(log)] == [b"new-%04d" % number for number in range(200)]


class SteppedWorkers(InlineWorkers):
    """Runs compactions step by step."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        if lane is not Lane.CLEANING:
            return super().run(work, lane=lane)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.held.append((work, future))
        return future

    async def step(self) -> None:
        """Run the oldest step, and let its compaction continue up to the next one."""
        work, future = self.held.pop(0)
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        await settle()

    async def step_until(self, is_reached: Callable[[], bool]) -> None:
        await settle()
        while not is_reached():
            await self.step()


async def test_the_compaction_of_a_deleted_log_leaves_the_files_of_the_next_one_alone() -> None:
    """With two cleaners: the new log is compacted too, and has files of the same names."""

    def fill_with_few_duplicates(log: Log) -> None:
        for number in range(200):
            put(log, b"%d" % (number % 160 if number % 2 else number), b"x" * 10)

    workers = SteppedWorkers()
    place = Place(settings=SETTINGS, workers=workers)
    old = place.create()
    fill_with_few_duplicates(old)
    await commit_everything(old)
    cleaner = make_cleaner(place)
    first = asyncio.ensure_future(cleaner.clean_one())
    await workers.step_until(lambda: leftovers_of(place.disk, "/data/orders-0") != [])
    (step_of_first,) = workers.held
    workers.held.clear()

    place.directory.delete(old)
    new = place.create()
    fill_with_few_duplicates(new)
    await commit_everything(new)
    table = table_of(new)
    second = asyncio.ensure_future(cleaner.clean_one())
    await workers.step_until(lambda: any(not segment.is_in_place for segment in new.segments))
    (step_of_second,) = workers.held
    workers.held[:] = [step_of_first]
    await workers.step_until(first.done)
    workers.held.append(step_of_second)
    await workers.step_until(second.done)

    assert await first
    assert await second
    assert table_of(new) == table
    assert cleaner.uncleanable == set()
    assert leftovers_of(place.disk, new.folder) == []
