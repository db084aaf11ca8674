"""Power cuts after another event: files that one process left unsynced must be synced by the next before it relies on
them.

Simulations of a whole node found each of these; `tests/simulation` keeps searching.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from harness.storage import NOW_MS, TOPIC_ID, HeldWorkers, Place, append, make_batch
from penstock.storage.settings import LogSettings

T = TypeVar("T")

SEEDS = range(20)  # a power cut loses random data; so many runs leave no doubt
DURABLE = LogSettings(flush_messages=1)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_log_that_was_killed_before_its_first_flush_keeps_its_topic_id(seed: int) -> None:
    place = Place(settings=DURABLE, seed=seed)
    place.create()
    log = await place.kill()
    append(log, make_batch(1))
    await log.flush()

    log = await place.crash()

    assert log.topic_id == TOPIC_ID
    assert log.end_offset == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_deleted_records_stay_deleted_after_a_power_cut(seed: int) -> None:
    batch_bytes = len(make_batch(1))
    place = Place(settings=LogSettings(flush_messages=1, segment_bytes=2 * batch_bytes), seed=seed)
    log = place.create()
    for _ in range(6):
        append(log, make_batch(1))
    await log.flush()
    log.high_watermark = 6
    log.advance_start(4)
    await place.directory.checkpoint_start_offsets()

    log.enforce_retention(place.clock.wall_ms(), high_watermark=6)
    await place.directory.checkpoint_start_offsets()
    log = await place.crash()

    assert log.start_offset == 4


async def test_epochs_are_restored_when_the_log_start_offset_moves_back() -> None:
    batch_bytes = len(make_batch(1))
    place = Place(settings=LogSettings(flush_messages=1, segment_bytes=2 * batch_bytes))
    log = place.create()
    for epoch in range(5):
        for _ in range(3):
            append(log, make_batch(1), leader_epoch=epoch)
    log.advance_start(10)
    await log.flush()
    await place.directory.checkpoint_recovery_points()

    log = await place.crash()

    assert log.start_offset == 0, "where it was moved to had not been written down"
    assert log.epochs.entries() == [(0, 0), (1, 3), (2, 6), (3, 9), (4, 12)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_noted_before_the_roll", [True, False])
async def test_a_lookup_by_time_finds_records_of_a_segment_whose_index_was_never_synced(
    seed: int, is_noted_before_the_roll: bool
) -> None:
    batch_bytes = len(make_batch(1))
    workers = HeldWorkers()
    settings = LogSettings(flush_messages=1, segment_bytes=2 * batch_bytes)
    place = Place(settings=settings, workers=workers, seed=seed)
    log = place.create()
    for second in range(2):
        append(log, make_batch(1, timestamp=NOW_MS + 1000 * second))
        await workers.release()
    assert log.durability.recovery_point == log.end_offset == 2, "all its records are safe"

    if is_noted_before_the_roll:
        await finish(workers, place.directory.checkpoint_recovery_points())
    append(log, make_batch(1, timestamp=NOW_MS + 2000))
    held, workers.held = workers.held, []  # the sync of the index, which the power cut prevents
    if not is_noted_before_the_roll:
        await finish(workers, place.directory.checkpoint_recovery_points())
    log = await finish(workers, place.crash())

    assert held
    found = log.reader.offset_for_timestamp(NOW_MS + 1000, end_offset=2)
    assert found is not None
    assert found.offset == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_rebuilt_index_is_not_trusted_before_it_is_synced(seed: int) -> None:
    """The checkpoint of a clean shutdown names the end of the log, where the next process may begin a new segment."""
    batch_bytes = len(make_batch(1))
    workers = HeldWorkers()
    settings = LogSettings(flush_messages=1, segment_bytes=2 * batch_bytes)
    place = Place(settings=settings, workers=workers, seed=seed)
    log = place.create()
    append(log, make_batch(1), make_batch(1, timestamp=NOW_MS + 1000))
    log = await finish(workers, place.restart())

    log = await finish(workers, place.kill())
    while workers.held:
        await workers.release()
    append(log, make_batch(1, timestamp=NOW_MS + 2000))
    assert len(log.segments) == 2
    workers.held.clear()  # the sync of the index, which the power cut prevents
    log = await finish(workers, place.crash())

    found = log.reader.offset_for_timestamp(NOW_MS + 1000, end_offset=2)
    assert found is not None
    assert found.offset == 1


async def finish(workers: HeldWorkers, work: Coroutine[Any, Any, T]) -> T:
    """Run workers until this is done."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await workers.release()
    return task.result()


@pytest.mark.parametrize("seed", SEEDS)
async def test_sync_now_covers_files_that_a_worker_has_not_synced_yet(seed: int) -> None:
    batch_bytes = len(make_batch(1))
    workers = HeldWorkers()
    place = Place(settings=LogSettings(segment_bytes=2 * batch_bytes), workers=workers, seed=seed)
    log = place.create()
    for _ in range(3):
        append(log, make_batch(1))
    assert len(workers.held) == 1, "the sync of the sealed segment is under way"

    log.durability.sync_now()
    assert log.durability.recovery_point == log.end_offset == 3
    workers.held.clear()
    log = await finish(workers, place.crash())

    assert log.end_offset == 3
