"""Moving a log between directories while it serves."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from harness.storage import (
    NOW_MS,
    QUIET,
    TOPIC_ID,
    append,
    make_batch,
    make_runtime,
    make_store,
    read_all,
    settle,
)
from penstock.runtime.network import FileSlice
from penstock.runtime.workers import Lane
from penstock.storage import moving
from penstock.storage.errors import DirectoryOffline, UnknownDirectory
from penstock.storage.log import Log
from penstock.storage.moving import CHUNK_BYTES, ROUNDS_MAX
from penstock.storage.pages import ColdPages
from penstock.storage.settings import LogSettings
from penstock.storage.store import LogStore
from penstock.storage.throttle import Throttle
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualLoop, run_virtual
from simulator.workers import SimulatedWorkers

T = TypeVar("T")
SETTINGS = LogSettings(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)


async def started(
    disk: SimulatedDisk, *, batches: int = 30, workers: SimulatedWorkers | None = None
) -> tuple[LogStore, Log]:
    store = make_store(disk, ("/a", "/b"), workers=workers)
    await store.start()
    log = store.create("t", 0, TOPIC_ID, SETTINGS, path="/a")
    for step in range(batches):
        append(log, make_batch(2, timestamp=NOW_MS + step), leader_epoch=step // 10)
    log.high_watermark = log.end_offset
    return store, log


async def finish(store: LogStore) -> None:
    move = store.move_of("t", 0)
    assert move is not None
    await move.wait()
    await settle()


async def test_a_moved_log_has_all_records_and_continues() -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    before = read_all(log)
    append(log, make_batch(1, producer_id=4, producer_epoch=0, base_sequence=0), leader_epoch=2)
    reported: list[int] = []
    log.durability.on_advance = lambda: reported.append(log.durability.end_offset)

    store.move("t", 0, "/b")
    await finish(store)

    assert store.get("t", 0) is log
    assert (log.directory, log.folder) == ("/b", "/b/t-0")
    assert read_all(log)[:-1] == before
    assert reported == [61]
    assert log.epochs.entries() == [(0, 0), (1, 20), (2, 40)]
    assert append(log, make_batch(1, producer_id=4, producer_epoch=0, base_sequence=0)).is_duplicate
    assert append(log, make_batch(3)).first_offset == 61
    assert not [name for name in disk.list("/a") if name.startswith("t-0")]
    assert len(log.producers) == 1
    await store.close()
    store = make_store(disk, ("/a", "/b"))
    assert await store.start() == []
    again = store.get("t", 0)
    assert again is not None
    assert (again.directory, again.end_offset) == ("/b", 64)


async def test_producers_continue_during_a_move() -> None:
    store, log = await started(SimulatedDisk())

    async def write() -> None:
        while store.move_of("t", 0) is not None:
            append(log, make_batch(1))
            await asyncio.sleep(0)

    store.move("t", 0, "/b")
    writer = asyncio.ensure_future(write())
    await finish(store)
    await writer

    assert log.directory == "/b"
    assert read_all(log)[-1].next_offset == log.end_offset
    assert [h.base_offset for h in read_all(log)][:30] == list(range(0, 60, 2))


async def test_a_log_start_offset_inside_a_batch_survives_a_move() -> None:
    store, log = await started(SimulatedDisk())
    log.advance_start(31)

    store.move("t", 0, "/b")
    await finish(store)

    assert (log.start_offset, log.segments[0].base_offset) == (31, 30)
    assert read_all(log)[0].base_offset == 30


@pytest.mark.parametrize("start_offset", [30, 31])
async def test_records_that_were_deleted_before_a_move_do_not_come_back_after_a_power_cut(
    start_offset: int,
) -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    log.advance_start(start_offset)
    store.move("t", 0, "/b")
    await finish(store)

    disk.crash(random.Random(1))
    store = make_store(disk, ("/a", "/b"))
    await store.start()

    again = store.get("t", 0)
    assert again is not None
    assert (again.directory, again.start_offset) == ("/b", start_offset)


async def test_a_truncation_during_a_move_restarts_the_copy() -> None:
    store, log = await started(SimulatedDisk())

    store.move("t", 0, "/b")
    await asyncio.sleep(0)
    await log.truncate(10)
    append(log, make_batch(5), leader_epoch=7)
    await finish(store)

    assert log.directory == "/b"
    assert [h.base_offset for h in read_all(log)] == [0, 2, 4, 6, 8, 10]


async def test_a_move_shows_in_the_description() -> None:
    store, log = await started(SimulatedDisk())

    store.move("t", 0, "/b")
    await asyncio.sleep(0)

    source, target = store.describe()
    assert [(one.topic, one.is_future) for one in source.logs] == [("t", False)]
    assert [(one.topic, one.is_future) for one in target.logs] == [("t", True)]
    assert 0 <= target.logs[0].offset_lag <= log.end_offset
    await finish(store)


async def test_moving_back_cancels_the_move() -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    store.move("t", 0, "/b")
    await asyncio.sleep(0)

    store.move("t", 0, "/a")
    await settle()

    assert store.move_of("t", 0) is None
    assert log.directory == "/a"
    assert not [name for name in disk.list("/b") if "future" in name]
    append(log, make_batch(1))


async def test_deleting_a_log_cancels_its_move() -> None:
    disk = SimulatedDisk()
    store, _ = await started(disk)
    store.move("t", 0, "/b")
    await asyncio.sleep(0)

    store.delete("t", 0)
    await settle()

    assert not [name for name in (*disk.list("/a"), *disk.list("/b")) if name.startswith("t-0")]


async def test_a_failed_target_leaves_the_log_in_its_directory() -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    disk.fail("/b/t-0", errno.EIO, operations=["append"])

    store.move("t", 0, "/b")
    await settle()

    assert store.move_of("t", 0) is None
    assert log.directory == "/a"
    append(log, make_batch(1))
    with pytest.raises(DirectoryOffline):
        store.move("t", 0, "/b")


async def test_a_shutdown_drops_an_unfinished_move() -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    store.move("t", 0, "/b")
    await asyncio.sleep(0)
    end_offset = log.end_offset

    await store.close()
    store = make_store(disk, ("/a", "/b"))
    await store.start()

    again = store.get("t", 0)
    assert again is not None
    assert (again.directory, again.end_offset) == ("/a", end_offset)
    assert not [name for name in disk.list("/b") if "future" in name]


async def test_a_log_that_does_not_exist_yet_is_created_in_the_requested_directory() -> None:
    store, _ = await started(SimulatedDisk())

    store.move("t", 9, "/b")
    store.move("t", 8, "/b")

    assert store.create("t", 9, TOPIC_ID, SETTINGS).directory == "/b"
    assert store.create("t", 8, TOPIC_ID, SETTINGS).directory == "/b"


async def test_a_path_outside_log_dirs_is_refused() -> None:
    store, _ = await started(SimulatedDisk())

    with pytest.raises(UnknownDirectory):
        store.move("t", 0, "/c")


async def test_a_move_that_fails_is_logged_and_leaves_no_copy_behind(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)

    def broken(copy: Log, *_: object, **__: object) -> None:
        raise ValueError("a batch of straw")

    monkeypatch.setattr(Log, "append_as_follower", broken)
    store.move("t", 0, "/b")
    await finish(store)

    assert log.directory == "/a"
    assert not [name for name in disk.list("/b") if "future" in name]
    assert "moving t-0 to /b failed" in caplog.text
    assert "a batch of straw" in caplog.text
    await store.close()


def test_a_move_obeys_the_throttle() -> None:
    loop = VirtualLoop()

    async def main() -> float:
        workers = SimulatedWorkers(random.Random(1))
        runtime = dataclasses.replace(make_runtime(SimulatedDisk()), workers=workers)
        store = LogStore(
            ("/a", "/b"),
            runtime=runtime,
            settings=QUIET,
            topic_settings=lambda _: SETTINGS,
            node_id=1,
            cluster_id="test",
            move_bytes_per_second=lambda: 100,
        )
        await store.start()
        log = store.create("t", 0, TOPIC_ID, SETTINGS, path="/a")
        for _ in range(100):
            append(log, make_batch(2))
        began_s, size = loop.time(), log.segments.size_bytes()
        store.move("t", 0, "/b")
        await finish(store)
        assert log.directory == "/b"
        return size / (loop.time() - began_s)

    assert 80 < run_virtual(loop, main()) < 120  # the last chunk does not wait


async def test_workers_read_a_log_that_is_not_in_memory() -> None:
    disk, stalls = SimulatedDisk(), []
    workers = SimulatedWorkers(random.Random(1), delay_s_max=0)
    store, log = await started(disk, workers=workers)
    disk.evict()
    disk.on_cold_read = lambda path: None if workers.is_working else stalls.append(path)

    store.move("t", 0, "/b")
    await finish(store)

    assert log.directory == "/b"
    assert stalls == []


async def test_a_source_that_cannot_be_read_goes_offline_and_the_move_is_cancelled() -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    disk.fail("/a/t-0", errno.EIO, operations=["read"])

    store.move("t", 0, "/b")
    await settle()

    assert store.move_of("t", 0) is None
    assert [directory.is_online for directory in store.directories] == [False, True]
    assert not [name for name in disk.list("/b") if "future" in name]
    with pytest.raises(DirectoryOffline):
        append(log, make_batch(1))


async def test_a_burst_while_the_throttle_waits_is_not_copied_in_one_turn_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, log = await started(SimulatedDisk())
    log.settings = LogSettings(segment_bytes=1 << 30, file_delete_delay_ms=0)
    rounds = turn = 0
    copied: Counter[int] = Counter()
    append_as_follower, flush = Log.append_as_follower, Log.flush

    async def take(_: Throttle, __: int) -> None:
        for _each in range(64 if rounds == ROUNDS_MAX - 1 else 1):
            append(log, make_batch(1, value=b"x" * (CHUNK_BYTES // 8)))

    async def flush_counted(flushed: Log) -> None:
        nonlocal rounds
        rounds += flushed is not log
        await flush(flushed)

    def append_counted(copy: Log, batches: memoryview, *, now_ms: int) -> Any:
        copied[turn] += len(batches)
        return append_as_follower(copy, batches, now_ms=now_ms)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Throttle, "take", take)
    monkeypatch.setattr(Log, "append_as_follower", append_counted)
    monkeypatch.setattr(Log, "flush", flush_counted)
    counting = asyncio.ensure_future(count_turns())
    store.move("t", 0, "/b")
    await finish(store)
    counting.cancel()

    assert log.directory == "/b"
    assert rounds > ROUNDS_MAX
    assert (
        max(copied.values()) <= 2 * CHUNK_BYTES
    )  # the last bytes, and a slice that was copied in the same turn


async def test_a_source_that_fails_after_the_move_does_not_undo_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    disk = SimulatedDisk()
    store, log = await started(disk)
    rename = disk.rename

    def rename_or_fail(old: str, new: str) -> None:
        if old == "/a/t-0":
            raise OSError(errno.EIO, "Input/output error", old)
        rename(old, new)

    monkeypatch.setattr(disk, "rename", rename_or_fail)
    store.move("t", 0, "/b")
    await finish(store)

    assert log.directory == "/b"
    assert [directory.is_online for directory in store.directories] == [False, True]
    assert "t-0 was moved from /a to /b" in caplog.text
    assert "cancelled" not in caplog.text
    assert append(log, make_batch(1)).first_offset == 60


async def test_a_source_that_fails_while_the_last_bytes_are_copied_goes_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    store, log = await started(disk)
    monkeypatch.setattr(moving, "ROUNDS_MAX", 1)
    flush = Log.flush

    async def flush_then_fail(flushed: Log) -> None:
        await flush(flushed)
        if flushed is not log:
            append(log, make_batch(1))
            disk.fail("/a/t-0", errno.EIO, operations=["read"])

    monkeypatch.setattr(Log, "flush", flush_then_fail)
    store.move("t", 0, "/b")
    await finish(store)

    assert log.directory == "/a"
    assert [directory.is_online for directory in store.directories] == [False, True]


class HeldSyncs(SimulatedWorkers):
    """Keeps a truncation running until it is released."""

    def __init__(self) -> None:
        super().__init__(random.Random(1), delay_s_max=0)
        self.is_holding = False
        self._held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        if lane is not Lane.SYNC or not self.is_holding:
            return super().run(work, lane=lane)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._held.append((work, future))
        return future

    def release(self) -> None:
        self.is_holding = False
        for held in self._held:
            self._finish(*held)
        self._held.clear()


async def test_a_truncation_while_pages_are_loaded_does_not_fail_the_move(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = HeldSyncs()
    store, log = await started(SimulatedDisk(), workers=workers)
    truncations: list[asyncio.Future[None]] = []
    find = moving.Move._find

    def truncate_then_find(move: moving.Move, copy: Log) -> Any:
        if not truncations:
            workers.is_holding = True
            truncations.append(asyncio.ensure_future(log.truncate(10)))
        if workers.is_holding and log.truncation._running is None:
            raise ColdPages(FileSlice(log.segments.active.file(), 0, 1, log.io))
        workers.release()  # the log is notified after this turn
        return find(move, copy)

    monkeypatch.setattr(moving.Move, "_find", truncate_then_find)
    store.move("t", 0, "/b")
    await finish(store)

    assert log.directory == "/b"
    assert [h.base_offset for h in read_all(log)] == [0, 2, 4, 6, 8]
    assert "failed" not in caplog.text
