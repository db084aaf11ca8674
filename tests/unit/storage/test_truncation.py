"""Truncation for a follower that diverged; deletion by retention and DeleteRecords."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import random

import pytest

from harness.storage import (
    NOW_MS,
    HeldWorkers,
    Place,
    append,
    append_in_transaction,
    make_batch,
    read_all,
    settle,
)
from penstock.records import kernel
from penstock.storage import truncation
from penstock.storage.errors import CorruptFile, DirectoryOffline, LogBusy, LogClosed, OffsetOutOfRange
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings
from simulator.loop import VirtualLoop, run_virtual
from simulator.workers import SimulatedWorkers

BATCH_BYTES = len(make_batch(2))
SMALL = LogSettings(segment_bytes=4 * BATCH_BYTES, index_interval_bytes=BATCH_BYTES)


def fill(log: Log, batches: int) -> None:
    for step in range(batches):
        append(log, make_batch(2, timestamp=NOW_MS + 10 * step), leader_epoch=step // 3)
    log.high_watermark = log.end_offset


@pytest.mark.parametrize("offset", range(23))
async def test_truncation_removes_the_whole_batch_that_holds_the_offset(offset: int) -> None:
    log = Place(settings=SMALL).create()
    fill(log, 11)

    await log.truncate(offset)

    end_offset = offset - offset % 2
    assert log.end_offset == end_offset
    assert [h.base_offset for h in read_all(log)] == list(range(0, end_offset, 2))
    assert all(start < max(end_offset, 1) for _, start in log.epochs.entries())
    append(log, make_batch(2, timestamp=NOW_MS + 500), leader_epoch=9)
    assert [h.base_offset for h in read_all(log)] == list(range(0, end_offset + 2, 2))
    assert log.reader.max_timestamp(end_offset=log.end_offset) == (end_offset + 1, NOW_MS + 501, 9)


async def test_truncation_moves_the_high_watermark_and_the_recovery_point_back() -> None:
    log = Place(settings=SMALL).create()
    fill(log, 11)
    await log.flush()

    await log.truncate(6)

    assert (log.durability.recovery_point, log.high_watermark, log.durability.end_offset) == (6, 6, 6)


async def test_a_log_refuses_requests_until_its_truncation_is_durable() -> None:
    workers = HeldWorkers()
    place = Place(settings=SMALL, workers=workers)
    log = place.create()
    fill(log, 11)
    await workers.release()

    truncating = asyncio.ensure_future(log.truncate(6))
    await settle()
    with pytest.raises(LogBusy):
        append(log, make_batch(1))
    with pytest.raises(LogBusy):
        read_all(log)
    closing = asyncio.ensure_future(log.close())
    await settle()
    assert not closing.done()
    while workers.held:
        await workers.release()

    await truncating
    await closing
    assert log.end_offset == 6


async def test_a_log_that_is_deleted_while_it_is_truncated_is_only_deleted() -> None:
    workers = HeldWorkers()
    place = Place(settings=SMALL, workers=workers)
    log = place.create()
    fill(log, 11)
    await workers.release()

    truncating = asyncio.ensure_future(log.truncate(6))
    await settle()
    place.directory.delete(log)
    while workers.held:
        await workers.release()

    with pytest.raises(LogClosed):
        await truncating
    assert place.directory.is_online


async def test_a_truncation_that_cannot_be_synced_takes_the_directory_offline() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    place.disk.fail("/data/orders-0", errno.EIO, operations=["sync"])

    with pytest.raises(DirectoryOffline, match=r"\(EIO\) while truncating"):
        await log.truncate(6)

    with pytest.raises(DirectoryOffline):
        append(log, make_batch(1))


async def test_a_truncation_whose_producers_cannot_be_rebuilt_does_not_leave_the_log_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)

    def corrupt(*_: object, **__: object) -> None:
        raise CorruptFile("00000000000000000008.snapshot is corrupt")

    monkeypatch.setattr(truncation, "rebuild_producers", corrupt)

    with pytest.raises(DirectoryOffline, match="snapshot is corrupt"):
        await log.truncate(6)

    with pytest.raises(DirectoryOffline):
        append(log, make_batch(1))


async def test_a_truncation_continues_when_its_caller_is_cancelled() -> None:
    workers = HeldWorkers()
    log = Place(settings=SMALL, workers=workers).create()
    fill(log, 11)
    await workers.release()
    truncating = asyncio.ensure_future(log.truncate(6))
    await settle()

    truncating.cancel()
    await settle()
    with pytest.raises(LogBusy):
        append(log, make_batch(1))
    while workers.held:
        await workers.release()
    await log.truncation.wait()

    assert append(log, make_batch(2)).first_offset == 6


async def test_a_truncation_waits_for_cold_pages_before_it_changes_anything() -> None:
    workers = SimulatedWorkers(random.Random(1), delay_s_max=0)
    place = Place(settings=SMALL, workers=workers)
    stalls: list[str] = []
    fill(place.create(), 11)
    log = await place.restart()
    place.disk.evict()
    place.disk.on_cold_read = lambda path: None if workers.is_working else stalls.append(path)

    await log.truncate(13)

    assert stalls == []
    assert [header.base_offset for header in read_all(log)] == list(range(0, 12, 2))


async def test_truncation_restores_earlier_producer_state() -> None:
    log = Place(settings=SMALL).create()
    for sequence in range(0, 20, 2):
        append(log, make_batch(2, producer_id=5, producer_epoch=0, base_sequence=sequence))

    await log.truncate(14)

    assert append(log, make_batch(2, producer_id=5, producer_epoch=0, base_sequence=14)).first_offset == 14


async def test_a_cached_position_does_not_outlive_a_truncation() -> None:
    log = Place().create()
    append(log, make_batch(2))
    append(log, make_batch(5))
    append(log, make_batch(2))
    log.read(7, max_bytes=1 << 20, end_offset=9, at_least_one=True)

    await log.truncate(2)
    append(log, make_batch(1))
    append(log, make_batch(7))

    found = log.read(7, max_bytes=1 << 20, end_offset=10, at_least_one=True)
    assert found is not None
    assert kernel.check_batch(found.read()).base_offset == 3


async def test_full_truncation_deletes_everything() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)

    await log.truncate_fully(100)

    assert (log.start_offset, log.end_offset, len(log.segments)) == (100, 100, 1)
    append(log, make_batch(1), leader_epoch=4)
    log = await place.kill()
    assert [h.base_offset for h in read_all(log)] == [100]


@pytest.mark.parametrize("is_clean", [True, False])
async def test_full_truncation_forgets_producers_and_their_transactions(is_clean: bool) -> None:
    place = Place()
    log = place.create()
    append_in_transaction(log, 5, 0)
    append(log, make_batch(2, producer_id=6, producer_epoch=0, base_sequence=0))
    log.high_watermark = log.end_offset
    log = await place.restart()  # leaves a snapshot at the end of the log

    await log.truncate_fully(100)

    assert len(log.producers) == 0
    append(log, make_batch(2), leader_epoch=4)
    log = await (place.restart() if is_clean else place.kill())
    log.high_watermark = log.end_offset
    assert log.first_unstable_offset is None
    assert len(log.producers) == 0


async def test_a_log_that_is_deleted_during_truncations_does_not_block_the_others() -> None:
    place = Place(settings=SMALL)
    logs = [place.create(partition=index) for index in range(3)]
    for log in logs:
        fill(log, 11)
    pending = [log.truncation.begin(6) for log in logs]

    place.directory.delete(logs[1])
    truncation.finish_all([each for each in pending if each is not None])
    await settle()

    assert (logs[0].refusal, logs[2].refusal) == (None, None)
    assert logs[1].refusal is not None


async def test_the_truncation_of_a_deleted_log_does_not_touch_a_new_one_of_the_same_name() -> None:
    place = Place()
    old = place.create()
    append(old, make_batch(2))
    pending = old.truncation.begin(0)
    assert pending is not None

    place.directory.delete(old)
    new = place.create()
    append(new, make_batch(2))
    append(new, make_batch(2))
    truncation.finish_all([pending])
    await settle()

    assert [h.base_offset for h in read_all(new)] == [0, 2]


@pytest.mark.parametrize("is_clean", [True, False])
async def test_an_empty_log_takes_a_batch_that_begins_before_it(is_clean: bool) -> None:
    source, place = Place().create(), Place()
    append(source, make_batch(1))
    append(source, make_batch(4), leader_epoch=3)
    found = source.read(1, max_bytes=1 << 20, end_offset=5, at_least_one=True)
    assert found is not None
    log = place.create()
    await log.truncate_fully(3)

    for _ in range(2):
        with contextlib.suppress(LogBusy):  # once, until a segment for the whole batch is on disk
            log.append_as_follower(memoryview(found.read()), now_ms=NOW_MS)
        await settle()

    for _ in range(2):
        assert (log.start_offset, log.end_offset) == (3, 5)
        assert log.epochs.entries() == [(3, 3)]
        assert [h.base_offset for h in read_all(log)] == [1]
        log = await (place.restart() if is_clean else place.kill())


async def test_a_log_that_is_killed_before_it_took_that_batch_is_empty_as_before() -> None:
    place = Place()
    log = place.create()
    await log.truncate_fully(3)
    truncation.finish_all([log.truncation.begin_inside_batch(1)])
    await settle()

    log = await place.kill()

    assert (log.start_offset, log.end_offset, len(log.segments)) == (3, 3, 1)


async def test_records_before_the_log_start_offset_cannot_be_read() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)

    log.advance_start(11)

    with pytest.raises(OffsetOutOfRange):
        log.read(10, max_bytes=100, end_offset=22, at_least_one=True)
    assert [h.base_offset for h in read_all(log)] == list(range(10, 22, 2))
    assert log.epochs.entries()[0][1] == 11
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(23)


async def test_the_log_start_offset_survives_a_restart() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    log.advance_start(11)

    assert (await place.restart()).start_offset == 11


async def test_retention_deletes_segments_before_the_log_start_offset() -> None:
    place = Place(settings=dataclasses.replace(SMALL, delete=False))
    log = place.create()
    fill(log, 11)
    log.advance_start(9)

    assert log.enforce_retention(NOW_MS, high_watermark=22) == 1

    assert log.segments[0].base_offset == 8
    assert log.start_offset == 9


async def test_retention_by_size_keeps_at_least_the_size() -> None:
    log = Place(settings=dataclasses.replace(SMALL, retention_bytes=6 * BATCH_BYTES)).create()
    fill(log, 11)

    assert log.enforce_retention(NOW_MS, high_watermark=22) == 1

    assert log.segments.size_bytes() == 7 * BATCH_BYTES
    assert log.start_offset == 8


async def test_retention_by_time_counts_from_the_latest_record_of_a_segment() -> None:
    log = Place(settings=dataclasses.replace(SMALL, retention_ms=100)).create()
    fill(log, 11)

    assert log.enforce_retention(NOW_MS + 31 + 100, high_watermark=22) == 0
    assert log.enforce_retention(NOW_MS + 32 + 100, high_watermark=22) == 1
    assert log.start_offset == 8


async def test_retention_may_empty_a_log() -> None:
    place = Place(settings=dataclasses.replace(SMALL, retention_ms=100))
    log = place.create()
    fill(log, 11)

    assert log.enforce_retention(NOW_MS + 10_000, high_watermark=22) == 3

    assert (log.start_offset, log.end_offset, log.segments.size_bytes()) == (22, 22, 0)
    append(log, make_batch(1))
    assert log.enforce_retention(NOW_MS, high_watermark=22) == 0


async def test_retention_stops_at_the_high_watermark() -> None:
    log = Place(settings=dataclasses.replace(SMALL, retention_ms=0, retention_bytes=0)).create()
    fill(log, 11)

    assert log.enforce_retention(NOW_MS + 10_000, high_watermark=15) == 1


async def test_records_without_a_timestamp_are_as_old_as_their_file() -> None:
    place = Place(settings=dataclasses.replace(SMALL, retention_ms=100))
    log = place.create()
    append(log, make_batch(1, timestamp=-1))
    log.high_watermark = 1

    assert log.enforce_retention(NOW_MS + 100, high_watermark=1) == 0
    assert log.enforce_retention(NOW_MS + 101, high_watermark=1) == 1


async def test_a_slice_outlives_its_segment() -> None:
    place = Place(settings=dataclasses.replace(SMALL, retention_ms=0, file_delete_delay_ms=0))
    log = place.create()
    fill(log, 11)
    held = log.read(0, max_bytes=1 << 20, end_offset=22, at_least_one=True)
    assert held is not None

    log.enforce_retention(NOW_MS + 10_000, high_watermark=22)
    await settle()

    assert len(kernel.check_batches(held.read())) == 4


def test_deleted_files_are_renamed_at_once_and_removed_after_the_delay() -> None:
    async def main() -> None:
        place = Place(settings=dataclasses.replace(SMALL, retention_ms=0, file_delete_delay_ms=5000))
        log = place.create()
        fill(log, 11)
        log.enforce_retention(NOW_MS + 10_000, high_watermark=22)
        names = place.disk.list("/data/orders-0")
        assert "00000000000000000000.log.deleted" in names
        assert "00000000000000000000.log" not in names
        await asyncio.sleep(4.9)
        assert "00000000000000000000.log.deleted" in place.disk.list("/data/orders-0")
        await asyncio.sleep(0.2)
        assert not [name for name in place.disk.list("/data/orders-0") if name.endswith(".deleted")]

    run_virtual(VirtualLoop(), main())
