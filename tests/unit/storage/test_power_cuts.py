"""Power cuts that follow something else: what one life left unsynced, the next must sync before it promises
anything.

Each of these was found by simulating a whole node; `tests/simulation` goes on looking.
"""

from __future__ import annotations

import pytest

from harness.storage import TOPIC_ID, Place, append, make_batch
from penstock.storage.settings import LogSettings

SEEDS = range(20)  # chance decides what a power cut takes; so many leave no doubt
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
async def test_deleted_records_do_not_come_back_when_their_segments_were_dropped(seed: int) -> None:
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


async def test_a_start_that_goes_back_brings_the_epochs_of_its_records_back() -> None:
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
