"""Flushing: which appends wait for the disk, and how many one sync completes."""

from __future__ import annotations

import asyncio
import errno

import pytest

from harness.storage import HeldWorkers, Place, append, make_batch, settle
from penstock.storage.errors import DirectoryOffline, LogBusy
from penstock.storage.settings import LogSettings
from simulator.loop import VirtualLoop, run_virtual


def held_place(**settings: int) -> tuple[Place, HeldWorkers]:
    workers = HeldWorkers()
    return Place(settings=LogSettings(**settings), workers=workers), workers


async def test_without_a_policy_the_end_is_visible_at_once() -> None:
    place, workers = held_place()
    log = place.create()

    append(log, make_batch(3))

    assert log.durability.end_offset == 3
    assert not workers.held


async def test_an_append_that_needs_a_flush_is_not_visible_before_it() -> None:
    place, workers = held_place(flush_messages=1)
    log = place.create()
    moved: list[int] = []
    log.durability.on_advance = lambda: moved.append(log.durability.end_offset)

    append(log, make_batch(3))
    assert log.durability.end_offset == 0
    await workers.release()

    assert log.durability.end_offset == log.durability.recovery_point == 3
    assert moved == [3]


async def test_one_sync_serves_all_earlier_appends_and_a_second_the_later_ones() -> None:
    place, workers = held_place(flush_messages=1)
    log = place.create()

    append(log, make_batch(1))
    for _ in range(9):
        append(log, make_batch(1))
    assert len(workers.held) == 1

    await workers.release()
    assert log.durability.end_offset == 1
    assert len(workers.held) == 1
    await workers.release()
    assert log.durability.end_offset == 10
    assert not workers.held


async def test_only_every_nth_message_waits() -> None:
    place, workers = held_place(flush_messages=5)
    log = place.create()

    append(log, make_batch(4))
    assert log.durability.end_offset == 4
    append(log, make_batch(2))
    assert log.durability.end_offset == 4
    await workers.release()
    assert log.durability.end_offset == 6


async def test_flush_waits_for_a_sync_that_began_after_the_call() -> None:
    place, workers = held_place()
    log = place.create()
    append(log, make_batch(1))
    first = asyncio.ensure_future(log.flush())
    await settle()
    append(log, make_batch(1))
    second = asyncio.ensure_future(log.flush())
    await settle()

    await workers.release()
    assert first.done()
    assert not second.done()
    await workers.release()
    assert second.done()
    assert log.durability.recovery_point == 2


async def test_a_flush_with_nothing_to_do_costs_nothing() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(1))
    await log.flush()
    place.disk.fail("/data", errno.EIO)

    await log.flush()

    assert place.directory.is_online


async def test_a_roll_flushes_the_sealed_segment_but_no_append_waits_for_it() -> None:
    place, workers = held_place(segment_bytes=200)
    log = place.create()
    for _ in range(3):
        append(log, make_batch(1))

    assert len(log.segments) == 2
    assert log.durability.end_offset == 3
    await workers.release()
    assert log.durability.recovery_point == 2


def test_flush_ms_flushes_the_remaining_appends() -> None:
    async def main() -> None:
        log = Place(settings=LogSettings(flush_ms=10_000)).create()
        append(log, make_batch(1))
        await asyncio.sleep(9.9)
        assert log.durability.recovery_point == 0
        await asyncio.sleep(0.2)
        assert log.durability.recovery_point == 1

    run_virtual(VirtualLoop(), main())


async def test_a_failed_sync_takes_the_directory_offline_and_fails_all_waiting_flushes() -> None:
    place, workers = held_place(flush_messages=1)
    log, other = place.create(), place.create(partition=1)
    reported: list[int] = []
    log.durability.on_advance = lambda: reported.append(log.durability.end_offset)
    append(log, make_batch(1))
    waiting = asyncio.ensure_future(log.flush())
    await settle()
    place.disk.fail("/data/orders-0", errno.EIO, operations=["sync"])

    await workers.release()

    with pytest.raises(DirectoryOffline, match="Input/output error"):
        await waiting
    assert log.durability.end_offset == 0
    assert reported == [0]
    for refused in (log, other):
        with pytest.raises(DirectoryOffline):
            append(refused, make_batch(1))
        with pytest.raises(DirectoryOffline):
            refused.read(0, max_bytes=1, end_offset=1, at_least_one=True)


async def test_a_sync_that_failed_once_is_never_tried_again() -> None:
    place, workers = held_place(flush_messages=1)
    log = place.create()
    append(log, make_batch(1))
    place.disk.fail("/data/orders-0", errno.EIO, operations=["sync"])
    await workers.release()
    place.disk.heal()

    with pytest.raises(DirectoryOffline):
        await log.flush()

    assert not workers.held
    assert log.durability.recovery_point == 0


async def test_a_sync_that_ends_after_a_truncation_does_not_move_the_durable_end() -> None:
    place, workers = held_place(flush_messages=1)
    log = place.create()
    append(log, make_batch(1))
    await workers.release()
    append(log, make_batch(5))
    truncating = asyncio.ensure_future(log.truncate(1))
    await asyncio.sleep(0)
    assert len(workers.held) == 2  # the sync, and the truncation
    with pytest.raises(LogBusy, match="is being truncated to offset 1"):
        append(log, make_batch(2))
    await workers.release()
    await truncating
    append(log, make_batch(2))

    assert log.durability.recovery_point == 1
    while workers.held:
        await workers.release()
    assert log.durability.recovery_point == log.durability.end_offset == 3


async def test_recovered_records_are_synced_before_they_are_visible() -> None:
    place, workers = held_place(flush_messages=1)
    place.create()
    place.settings = LogSettings()
    log = place.directory.logs["orders", 0]
    log.settings = place.settings
    append(log, make_batch(4))
    place.settings = LogSettings(flush_messages=1)

    task = asyncio.ensure_future(place.kill())
    while not task.done():
        await workers.release()
    log = task.result()

    while workers.held:
        assert log.durability.end_offset == 0
        await workers.release()
    assert log.durability.end_offset == 4


async def test_the_recovery_point_checkpoint_does_not_pass_a_segment_before_its_index_is_synced() -> None:
    place, workers = held_place(flush_messages=1, segment_bytes=200)
    log = place.create()
    for _ in range(2):
        append(log, make_batch(1))
        await workers.release()
    assert (log.durability.recovery_point, log.durability.scan_offset) == (2, 0), (
        "the segment that is written to is never safe as a whole"
    )

    append(log, make_batch(1))
    assert len(log.segments) == 2
    assert log.durability.scan_offset == 0
    await workers.release()

    assert log.durability.scan_offset == 2


async def test_after_a_clean_shutdown_the_recovery_point_is_the_end() -> None:
    place = Place(settings=LogSettings(segment_bytes=200))
    log = place.create()
    for _ in range(3):
        append(log, make_batch(1))

    log = await place.restart()

    assert log.durability.scan_offset == 3
    append(log, make_batch(1))
    assert log.durability.scan_offset == 2


async def test_a_flush_completes_when_the_callback_after_the_sync_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The flushes used to wait forever, and with them the checkpoints of the whole node."""
    place, workers = held_place(flush_messages=1)
    log = place.create()

    def fail() -> None:
        raise ValueError("a listener of straw")

    log.durability.on_advance = fail
    append(log, make_batch(1))
    append(log, make_batch(1))  # a second sync runs for this append and for later flushes
    waiting = asyncio.gather(log.flush(), return_exceptions=True)
    await settle()
    while workers.held:
        await workers.release()

    (failure,) = await waiting
    assert isinstance(failure, ValueError)
    assert log.durability.recovery_point == 2
    assert "orders-0 failed" in caplog.text
