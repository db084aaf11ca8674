"""What a log knows of its transactions after a shutdown, a kill or a truncation."""

from __future__ import annotations

import pytest

from harness.storage import NOW_MS, Place, append, append_in_transaction, append_marker, make_batch
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings

SMALL_SEGMENTS = LogSettings(segment_bytes=300, retention_ms=-1, file_delete_delay_ms=0)


def commit_all(log: Log) -> None:
    log.high_watermark = log.end_offset


@pytest.mark.parametrize("ending", ["restart", "kill"])
async def test_an_open_transaction_is_open_after_a_restart(ending: str) -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    append(log, make_batch(1))
    append_in_transaction(log, 7, 0)
    for _ in range(5):
        append(log, make_batch(1))
    commit_all(log)
    await place.directory.checkpoint_high_watermarks()

    log = await getattr(place, ending)()

    assert log.first_unstable_offset == 1
    assert log.producers.has_open_transaction(7, 0)
    append_marker(log, 7)
    commit_all(log)
    assert log.first_unstable_offset is None


@pytest.mark.parametrize("ending", ["restart", "kill"])
async def test_a_transaction_whose_marker_is_not_committed_is_unstable_after_a_restart(ending: str) -> None:
    """In the snapshot the transaction has ended. But another leader may not have the marker, and the log be truncated
    before it."""
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    append_in_transaction(log, 7, 0)
    append_in_transaction(log, 7, 1)
    log.high_watermark = 1
    append_marker(log, 7)
    for _ in range(8):
        append(log, make_batch(1))
    await log.flush()
    await place.directory.checkpoint_high_watermarks()

    log = await getattr(place, ending)()

    assert len(log.segments) > 2
    assert log.high_watermark == 1
    assert log.first_unstable_offset == 0
    commit_all(log)
    assert log.first_unstable_offset is None


async def test_truncating_a_marker_reopens_its_transaction() -> None:
    log = Place(settings=SMALL_SEGMENTS).create()
    append_in_transaction(log, 7, 0)
    log.high_watermark = 1
    append_marker(log, 7, is_commit=False)

    await log.truncate(1)

    assert log.producers.has_open_transaction(7, 0)
    assert log.first_unstable_offset == 0
    assert log.reader.aborted_transactions(0, 1) == []


async def test_truncation_keeps_a_transaction_that_began_before_the_log_start_offset() -> None:
    log = Place().create()
    append_in_transaction(log, 7, 0)
    commit_all(log)
    log.advance_start(1)
    append(log, make_batch(1))

    await log.truncate(1)

    assert log.producers.has_open_transaction(7, 0)
    assert log.first_unstable_offset == 1


async def test_truncating_a_transaction_removes_it() -> None:
    log = Place(settings=SMALL_SEGMENTS).create()
    append(log, make_batch(1))
    commit_all(log)
    append_in_transaction(log, 7, 0)

    await log.truncate(1)

    assert log.first_unstable_offset is None
    assert append_in_transaction(log, 7, 0).first_offset == 1


async def test_a_producer_with_an_open_transaction_does_not_expire_on_restart() -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    append_in_transaction(log, 7, 0)
    append_in_transaction(log, 8, 0)
    append_marker(log, 8)
    log = await place.restart()

    log.producers.expire(NOW_MS + 10**9, expiration_ms=1000)

    assert [producer.producer_id for producer in log.producers] == [7]
    assert log.first_unstable_offset == 0
