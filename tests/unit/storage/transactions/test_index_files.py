"""The `.txnindex` files of a log: written, read, truncated, deleted, rebuilt."""

from __future__ import annotations

import asyncio

import pytest

from harness.storage import (
    NOW_MS,
    TOPIC_ID,
    HeldWorkers,
    Place,
    append,
    append_in_transaction,
    append_marker,
    make_batch,
    make_store,
)
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings
from penstock.storage.transactions.aborted import ENTRY_BYTES, AbortedTransaction, MemoryTransactionIndex
from simulator.disk import SimulatedDisk

INDEX = "00000000000000000000.txnindex"
ONE_SEGMENT = LogSettings(file_delete_delay_ms=0)
SMALL_SEGMENTS = LogSettings(segment_bytes=400, file_delete_delay_ms=0, retention_ms=-1)


def abort(log: Log, producer_id: int, *, batches: int = 1) -> None:
    """A whole aborted transaction."""
    for _ in range(batches):
        known = log.producers.get(producer_id)
        append_in_transaction(log, producer_id, known.last_sequence + 1 if known is not None else 0)
    append_marker(log, producer_id, is_commit=False)
    log.high_watermark = log.end_offset


def all_aborted(log: Log) -> list[AbortedTransaction]:
    return log.reader.aborted_transactions(log.start_offset, log.end_offset)


def files_of(place: Place) -> list[str]:
    return [name for name in place.disk.list("/data/orders-0") if name.endswith(".txnindex")]


async def test_a_segment_without_aborted_transactions_has_no_file() -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    for sequence in range(20):
        append_in_transaction(log, 1, sequence)
        append_marker(log, 1)

    await place.restart()

    assert len(log.segments) > 3
    assert files_of(place) == []


async def test_the_file_is_written_when_its_segment_is_sealed_and_read_after_a_restart() -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    append_in_transaction(log, 5, 0)
    for _ in range(12):
        abort(log, 7, batches=2)
    append_marker(log, 5, is_commit=False)
    expected = [AbortedTransaction(7, 1 + 3 * n) for n in range(12)] + [AbortedTransaction(5, 0)]
    assert all_aborted(log) == expected
    assert len(files_of(place)) == len(log.segments) - 1

    log = await place.restart()

    assert all_aborted(log) == expected
    assert not place.reports
    entries = MemoryTransactionIndex.decode(place.disk.read_file(place.path(INDEX))).entries()
    assert [entry[1:] for entry in entries] == [(1, 3, 0)], "the other was open when this one was aborted"


async def test_entries_are_added_to_the_file_of_a_segment_that_is_active_again() -> None:
    place = Place(settings=ONE_SEGMENT)
    log = place.create()
    for producer_id in range(4):
        abort(log, producer_id)
        log = await place.restart()

    assert all_aborted(log) == [AbortedTransaction(n, 2 * n) for n in range(4)]
    assert len(place.disk.read_file(place.path(INDEX))) == 4 * ENTRY_BYTES


async def test_truncation_removes_aborted_transactions_from_the_file() -> None:
    place = Place(settings=ONE_SEGMENT)
    log = place.create()
    for producer_id in range(4):
        abort(log, producer_id)
    log = await place.restart()

    await log.truncate(5)  # the third began before it, and is not aborted any more
    assert all_aborted(log) == [AbortedTransaction(0, 0), AbortedTransaction(1, 2)]
    assert log.first_unstable_offset == 4
    log = await place.restart()

    assert all_aborted(log) == [AbortedTransaction(0, 0), AbortedTransaction(1, 2)]
    assert len(place.disk.read_file(place.path(INDEX))) == 2 * ENTRY_BYTES


async def test_full_truncation_leaves_an_empty_file() -> None:
    place = Place(settings=ONE_SEGMENT)
    log = place.create()
    abort(log, 1)
    log = await place.restart()

    await log.truncate(0)
    append(log, make_batch(3))
    log = await place.restart()

    assert all_aborted(log) == []
    assert place.disk.read_file(place.path(INDEX)) == b""


async def test_files_are_deleted_with_their_segments() -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    for _ in range(12):
        abort(log, 7)
    before = files_of(place)

    log.advance_start(log.end_offset - 5)
    dropped = log.enforce_retention(NOW_MS, high_watermark=log.end_offset)

    assert dropped > 1
    assert files_of(place) == before[dropped:]
    assert [first for _, first in all_aborted(log)] == [
        log.end_offset - 6,
        log.end_offset - 4,
        log.end_offset - 2,
    ]


async def test_a_transaction_that_began_in_a_deleted_segment_can_be_aborted() -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    append_in_transaction(log, 7, 0)
    for _ in range(10):
        append(log, make_batch(1, value=b"x" * 100))
    append_in_transaction(log, 7, 1)
    log.high_watermark = log.end_offset
    log.advance_start(8)
    log.enforce_retention(NOW_MS, high_watermark=log.end_offset)
    assert log.first_unstable_offset == 8
    log = await place.restart()
    assert log.first_unstable_offset == 8

    append_marker(log, 7, is_commit=False)
    log.high_watermark = log.end_offset

    assert log.first_unstable_offset is None
    assert all_aborted(log) == [AbortedTransaction(7, 0)]


async def test_a_killed_log_rebuilds_its_files() -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    append_in_transaction(log, 5, 0)
    for _ in range(12):
        abort(log, 7)
    expected = all_aborted(log)
    for name in files_of(place):
        place.disk.remove(place.path(name))

    log = await place.kill()

    assert place.reports
    assert all_aborted(log) == expected
    assert log.first_unstable_offset == 0


@pytest.mark.parametrize("damage", [bytes(ENTRY_BYTES), b"\x00" * 10])
async def test_a_damaged_file_is_rebuilt_even_after_a_clean_shutdown(damage: bytes) -> None:
    place = Place(settings=SMALL_SEGMENTS)
    log = place.create()
    for _ in range(12):
        abort(log, 7)
    expected = all_aborted(log)
    await place.directory.close()
    place.disk.write_file(place.path(files_of(place)[1]), damage)

    log = await place.start()

    assert place.reports
    assert all_aborted(log) == expected
    log = await place.restart()
    assert not place.reports
    assert all_aborted(log) == expected


async def test_damage_in_the_middle_of_the_last_file_does_not_prevent_appends() -> None:
    place = Place(settings=ONE_SEGMENT)
    log = place.create()
    for _ in range(5):
        abort(log, 7)
    expected = all_aborted(log)
    await place.directory.close()
    data = place.disk.read_file(place.path(INDEX))
    place.disk.write_file(
        place.path(INDEX), data[: 2 * ENTRY_BYTES] + bytes(ENTRY_BYTES) + data[3 * ENTRY_BYTES :]
    )

    log = await place.start()
    abort(log, 8)

    assert all_aborted(log) == [*expected, AbortedTransaction(8, 10)]


async def test_aborted_and_open_transactions_move_with_the_log() -> None:
    store = make_store(SimulatedDisk(), ("/a", "/b"))
    await store.start()
    log = store.create("orders", 0, TOPIC_ID, SMALL_SEGMENTS, path="/a")
    for _ in range(12):
        abort(log, 7)
    append_in_transaction(log, 5, 0)
    expected = all_aborted(log)

    store.move("orders", 0, "/b")
    move = store.move_of("orders", 0)
    assert move is not None
    await move.wait()

    assert log.directory == "/b"
    assert all_aborted(log) == expected
    assert log.first_unstable_offset == 24
    append_marker(log, 5, is_commit=False)
    assert all_aborted(log) == [*expected, AbortedTransaction(5, 24)]
    await store.close()


# Power cuts


@pytest.mark.parametrize("seed", range(20))
async def test_the_file_of_a_sealed_segment_is_synced_before_the_checkpoint_covers_it(seed: int) -> None:
    place = Place(settings=SMALL_SEGMENTS, seed=seed)
    log = place.create()
    for _ in range(12):
        abort(log, 7)
    await log.flush()
    expected = all_aborted(log)
    await place.directory.checkpoint_recovery_points()

    log = await place.crash()

    assert all_aborted(log) == expected
    assert place.reports[0].scanned_segments < len(log.segments), "not all was looked at"


@pytest.mark.parametrize("seed", range(20))
async def test_a_file_that_was_never_synced_is_not_trusted(seed: int) -> None:
    workers = HeldWorkers()
    place = Place(settings=SMALL_SEGMENTS, workers=workers, seed=seed)
    log = place.create()
    abort(log, 7)
    log.durability.sync_now()
    while len(log.segments) == 1:
        log.segments.active.file().sync()  # the records are synced, but not their index
        abort(log, 7)
    workers.held.clear()

    start = asyncio.ensure_future(place.crash())
    while not start.done():
        await workers.release()
    log = start.result()

    aborted = all_aborted(log)
    assert len(aborted) > 1
    assert aborted == [AbortedTransaction(7, offset) for offset in range(0, log.end_offset // 2 * 2, 2)]


@pytest.mark.parametrize("seed", range(20))
async def test_entries_removed_by_a_truncation_do_not_return_after_a_power_cut(seed: int) -> None:
    place = Place(settings=LogSettings(segment_bytes=1000, file_delete_delay_ms=0), seed=seed)
    log = place.create()
    for producer_id in range(3):
        abort(log, producer_id)
    log = await place.restart()
    await log.truncate(0)
    while len(log.segments) == 1:
        append(log, make_batch(1, value=b"x" * 50))
    await log.flush()
    await place.directory.checkpoint_recovery_points()

    log = await place.crash()

    assert all_aborted(log) == []
