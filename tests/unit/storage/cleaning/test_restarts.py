"""What a restart finds in a compacted log, and what compaction waits for after one."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from harness.compaction import commit_everything, make_cleaner, records_of
from harness.storage import (
    NOW_MS,
    QUIET,
    TOPIC_ID,
    InlineWorkers,
    Place,
    append,
    append_in_transaction,
    append_marker,
    make_runtime,
    read_all,
)
from penstock.records import kernel
from penstock.records.batch import NewRecord
from penstock.storage.cleaning.cleaner import LogCleaner
from penstock.storage.log import Log
from penstock.storage.settings import CleanerSettings, LogSettings
from penstock.storage.store import LogStore
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualLoop, run_virtual

SETTINGS = LogSettings(
    segment_bytes=2000, index_interval_bytes=100, compact=True, delete=False, delete_retention_ms=0
)
HOUR_MS = 3_600_000
NO_TIMESTAMP = -1


def put(log: Log, key: bytes, *, timestamp_ms: int = NOW_MS, leader_epoch: int = 0) -> None:
    append(log, kernel.build_batch([NewRecord(timestamp_ms, key, b"x" * 20)]), leader_epoch=leader_epoch)


def fill(log: Log, *, count: int, keys: int, timestamp_ms: int = NOW_MS, leader_epoch: int = 0) -> None:
    for number in range(count):
        put(log, b"key-%d" % (number % keys), timestamp_ms=timestamp_ms, leader_epoch=leader_epoch)


# Settings


def make_store(disk: SimulatedDisk, defaults: LogSettings) -> LogStore:
    return LogStore(
        ["/data"],
        runtime=make_runtime(disk),
        settings=QUIET,
        topic_settings=lambda _: defaults,
        node_id=1,
        cluster_id="test",
    )


async def stop_with_a_full_log(disk: SimulatedDisk, settings: LogSettings) -> None:
    store = make_store(disk, settings)
    await store.start()
    log = store.create("orders", 0, TOPIC_ID, settings)
    fill(log, count=200, keys=9)
    await commit_everything(log)
    await store.directories[0].checkpoint_high_watermarks()
    await store.close()


async def test_no_log_is_compacted_before_the_settings_of_its_topic_are_known() -> None:
    disk = SimulatedDisk()
    await stop_with_a_full_log(disk, SETTINGS)

    store = make_store(disk, SETTINGS)
    await store.start()
    assert not await store.cleaner.clean_one()
    log = store.claim("orders", 0, TOPIC_ID)
    assert log is not None
    assert not await store.cleaner.clean_one()
    log.set_topic_settings(dataclasses.replace(SETTINGS, compact=False))
    assert not await store.cleaner.clean_one()
    assert len(records_of(log)) == 200

    log.set_topic_settings(SETTINGS)
    assert await store.cleaner.clean_one()
    assert len(records_of(log)) < 200


async def test_retention_deletes_nothing_before_the_settings_of_the_topic_are_known() -> None:
    disk = SimulatedDisk()
    unlimited = LogSettings(segment_bytes=2000, retention_ms=-1)
    await stop_with_a_full_log(disk, unlimited)

    store = make_store(disk, dataclasses.replace(unlimited, retention_bytes=0))
    await store.start()
    assert await store.enforce_retention() == 0
    log = store.claim("orders", 0, TOPIC_ID)
    assert log is not None
    log.set_topic_settings(unlimited)
    assert await store.enforce_retention() == 0
    assert len(records_of(log)) == 200

    log.set_topic_settings(dataclasses.replace(unlimited, retention_bytes=0))
    assert await store.enforce_retention() > 0


def test_cleaners_beyond_the_current_number_of_threads_are_idle() -> None:
    place = Place(settings=SETTINGS)
    thread_count = 0
    cleaner = LogCleaner(
        [place.directory],
        workers=InlineWorkers(),
        clock=place.clock,
        settings=lambda: CleanerSettings(thread_count=thread_count, backoff_ms=1000),
    )

    async def main() -> list[int]:
        nonlocal thread_count
        log = place.create()
        fill(log, count=200, keys=9)
        await commit_everything(log)
        counts = [len(records_of(log))]
        second = asyncio.ensure_future(cleaner.run(1))
        first = asyncio.ensure_future(cleaner.run(0))
        await asyncio.sleep(60)  # of virtual time
        counts.append(len(records_of(log)))
        thread_count = 1
        await asyncio.sleep(60)
        counts.append(len(records_of(log)))
        first.cancel()
        fill(log, count=400, keys=9)
        await commit_everything(log)
        counts.append(len(records_of(log)))
        await asyncio.sleep(60)
        counts.append(len(records_of(log)))
        thread_count = 2
        await asyncio.sleep(60)
        counts.append(len(records_of(log)))
        second.cancel()
        return counts

    full, with_none, with_one, full_again, without_first, with_second = run_virtual(VirtualLoop(), main())

    assert with_none == full
    assert with_one < full
    assert without_first == full_again
    assert with_second < full_again


# State that is rebuilt


async def test_a_transaction_whose_marker_was_removed_is_not_open_after_an_index_is_rebuilt() -> None:
    """A producer snapshot between its records and its marker would open it again."""
    place = Place(settings=dataclasses.replace(SETTINGS, min_cleanable_dirty_ratio=0.0))
    log = place.create()
    while log.segments.active.size < 1700:
        put(log, b"%d" % log.end_offset)
    key_of_transaction = b"replaced"
    batch = kernel.build_batch(
        [NewRecord(NOW_MS, key_of_transaction, b"1")],
        producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True,
    )  # fmt: skip
    guard = log.producers.start_verification(9, 0, 0, is_version_2=False, now_ms=NOW_MS)
    log.append(memoryview(batch), [kernel.read_header(batch, 0)], leader_epoch=0, now_ms=NOW_MS, guard=guard)
    while len(log.segments) < 2:
        put(log, b"%d" % log.end_offset)
    append_marker(log, 9)
    while len(log.segments) < 3:
        put(log, b"%d" % log.end_offset)
    put(log, key_of_transaction)
    log.producers.expire(NOW_MS, expiration_ms=0)

    while any(header.is_control for header in read_all(log)):
        fill(log, count=200, keys=200)
        await commit_everything(log)
        assert await make_cleaner(place).clean_one()
        place.clock.now_ms += 10
    await place.directory.close()
    second = log.segments[1]
    assert second.base_offset < 50, "it begins in the transaction"
    place.disk.remove(second.path(".index"))
    log = await place.start()
    log.high_watermark = log.end_offset

    assert log.first_unstable_offset is None
    assert not log.producers.has_open_transaction(9, 0)


async def test_leader_epochs_of_a_compacted_log_stay_when_an_index_is_rebuilt() -> None:
    """The first records of epoch 5 are compacted away."""
    place = Place(settings=SETTINGS)
    log = place.create()
    put(log, b"only once", leader_epoch=4)
    fill(log, count=29, keys=29, leader_epoch=4)
    fill(log, count=30, keys=30, leader_epoch=5)
    fill(log, count=200, keys=30, leader_epoch=5)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    assert 30 not in {record.offset for record in records_of(log)}
    await place.directory.close()
    place.disk.remove(log.segments[0].path(".index"))

    log = await place.start()

    assert log.epochs.entries() == [(4, 0), (5, 30)]
    assert log.epoch_end_offset(4) == (4, 30)


# What compaction keeps


@pytest.mark.parametrize("map_bytes", [24 * 8, 1 << 20])
async def test_the_last_compacted_batch_stays_even_if_the_map_is_full(map_bytes: int) -> None:
    """A follower reads from it where the log ends (KAFKA-17076)."""
    place = Place(settings=dataclasses.replace(SETTINGS, segment_bytes=200_000, segment_ms=1000))
    log = place.create()
    fill(log, count=100, keys=100)
    append_in_transaction(log, 9, 0)
    append_marker(log, 9, is_commit=False)
    end_offset = log.end_offset
    place.clock.now_ms += 2000
    log.producers.expire(place.clock.now_ms, expiration_ms=0)
    batch = kernel.build_batch([NewRecord(place.clock.now_ms, b"next", b"1")])
    append(log, batch, now_ms=place.clock.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, end_offset]
    await commit_everything(log)

    for _ in range(3):
        place.clock.now_ms += 10
        await make_cleaner(place, map_bytes=map_bytes).clean_one()

    assert end_offset in {header.next_offset for header in read_all(log)}
    assert end_offset - 2 not in {header.base_offset for header in read_all(log)}, "the aborted record"


async def test_a_compacted_segment_without_timestamps_keeps_its_age() -> None:
    """Retention uses the time of the file then."""
    place = Place(settings=SETTINGS)
    log = place.create()
    fill(log, count=200, keys=9, timestamp_ms=NO_TIMESTAMP)
    await commit_everything(log)
    place.clock.now_ms += HOUR_MS

    assert await make_cleaner(place).clean_one()

    assert len(records_of(log)) < 200
    assert [segment.retention_timestamp() for segment in log.segments] == [NOW_MS] * len(log.segments)


async def test_batches_without_timestamps_are_never_overdue() -> None:
    settings = dataclasses.replace(SETTINGS, max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=0.9)
    place = Place(settings=settings)
    log = place.create()
    fill(log, count=60, keys=60, timestamp_ms=NO_TIMESTAMP)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()
    fill(log, count=30, keys=30, timestamp_ms=NO_TIMESTAMP)
    await commit_everything(log)

    assert not await make_cleaner(place).clean_one()

    fill(log, count=60, keys=60, timestamp_ms=NOW_MS - 2 * HOUR_MS)
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()


# Errors


async def test_the_error_about_a_damaged_batch_names_its_file(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    fill(log, count=200, keys=200)
    await commit_everything(log)
    damaged = log.segments[3]
    place.disk.overwrite(damaged.path(".log"), 80, b"\xff")
    damaged.release_files()

    assert await make_cleaner(place).clean_one()

    (message,) = [record.message for record in caplog.records if "cannot be compacted" in record.message]
    assert damaged.path(".log") in message
