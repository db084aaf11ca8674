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
