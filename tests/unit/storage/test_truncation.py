"""Making a log shorter: at its end for a follower that diverged, at its start by retention and DeleteRecords."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import random

import pytest

from harness.storage import NOW_MS, HeldWorkers, Place, append, make_batch, read_all, settle
from penstock.records import kernel
from penstock.storage import log as log_module
from penstock.storage.errors import CorruptFile, DirectoryOffline, LogBusy, LogClosed, OffsetOutOfRange
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings
from penstock.testing.loop import VirtualLoop, run_virtual
from penstock.testing.workers import SimulatedWorkers

BATCH_BYTES = len(make_batch(2))
SMALL = LogSettings(segment_bytes=4 * BATCH_BYTES, index_interval_bytes=BATCH_BYTES)


def fill(log: Log, batches: int) -> None:
    for step in range(batches):
        append(log, make_batch(2, timestamp=NOW_MS + 10 * step), leader_epoch=step // 3)
    log.high_watermark = log.end_offset


@pytest.mark.parametrize("offset", range(23))
async def test_truncation_cuts_at_the_batch_that_holds_the_offset(offset: int) -> None:
    log = Place(settings=SMALL).create()
    fill(log, 11)

    await log.truncate(offset)

    end_offset = offset - offset % 2
    assert log.end_offset == end_offset
    assert [h.base_offset for h in read_all(log)] == list(range(0, end_offset, 2))
    assert all(start < max(end_offset, 1) for _, start in log.epochs.entries())
    append(log, make_batch(2, timestamp=NOW_MS + 500), leader_epoch=9)
    assert [h.base_offset for h in read_all(log)] == list(range(0, end_offset + 2, 2))
    assert log.max_timestamp(end_offset=log.end_offset) == (end_offset + 1, NOW_MS + 501, 9)


async def test_truncation_takes_the_high_watermark_and_the_recovery_point_along() -> None:
    log = Place(settings=SMALL).create()
    fill(log, 11)
    await log.flush()

    await log.truncate(6)

    assert (log.recovery_point, log.high_watermark, log.durable_end_offset) == (6, 6, 6)


async def test_a_log_is_not_served_until_its_truncation_is_safe_on_disk() -> None:
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


async def test_a_truncation_that_cannot_be_made_safe_takes_the_directory_offline() -> None:
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

    monkeypatch.setattr(log_module, "rebuild_producers", corrupt)

    with pytest.raises(DirectoryOffline, match="snapshot is corrupt"):
        await log.truncate(6)

    with pytest.raises(DirectoryOffline):
        append(log, make_batch(1))


async def test_a_truncation_goes_on_when_its_caller_is_cancelled() -> None:
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
    await log.when_settled()

    assert append(log, make_batch(2)).first_offset == 6


async def test_a_truncation_of_what_is_not_in_memory_is_not_begun_before_it_is() -> None:
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


async def test_truncation_takes_producers_back() -> None:
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


async def test_starting_anew_drops_everything() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)

    await log.truncate_fully(100)

    assert (log.start_offset, log.end_offset, log.segment_count()) == (100, 100, 1)
    append(log, make_batch(1), leader_epoch=4)
    log = await place.kill()
    assert [h.base_offset for h in read_all(log)] == [100]


async def test_records_before_the_start_are_gone_for_readers() -> None:
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


async def test_the_start_is_there_again_after_a_restart() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    log.advance_start(11)

    assert (await place.restart()).start_offset == 11


async def test_retention_drops_segments_before_the_start() -> None:
    place = Place(settings=dataclasses.replace(SMALL, delete=False))
    log = place.create()
    fill(log, 11)
    log.advance_start(9)

    assert log.enforce_retention(NOW_MS, high_watermark=22) == 1

    assert log.first_base_offset() == 8
    assert log.start_offset == 9


async def test_retention_by_size_keeps_at_least_the_size() -> None:
    log = Place(settings=dataclasses.replace(SMALL, retention_bytes=6 * BATCH_BYTES)).create()
    fill(log, 11)

    assert log.enforce_retention(NOW_MS, high_watermark=22) == 1

    assert log.size_bytes() == 7 * BATCH_BYTES
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

    assert (log.start_offset, log.end_offset, log.size_bytes()) == (22, 22, 0)
    append(log, make_batch(1))
    assert log.enforce_retention(NOW_MS, high_watermark=22) == 0


async def test_retention_stops_at_the_high_watermark() -> None:
    log = Place(settings=dataclasses.replace(SMALL, retention_ms=0, retention_bytes=0)).create()
    fill(log, 11)

    assert log.enforce_retention(NOW_MS + 10_000, high_watermark=15) == 1


async def test_records_without_a_time_are_as_old_as_their_file() -> None:
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


def test_dropped_files_are_renamed_at_once_and_removed_after_the_delay() -> None:
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
