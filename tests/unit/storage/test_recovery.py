"""Restarting: what is trusted after a clean shutdown, and what is recovered after an unclean one."""

from __future__ import annotations

import errno
import logging

import pytest

from harness.storage import NOW_MS, Place, append, make_batch, read_all
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings

BATCH_BYTES = len(make_batch(2))
SMALL = LogSettings(segment_bytes=4 * BATCH_BYTES, index_interval_bytes=BATCH_BYTES)


def fill(log: Log, batches: int) -> None:
    for step in range(batches):
        append(log, make_batch(2, timestamp=NOW_MS + 10 * step), leader_epoch=step // 5)


def state_of(log: Log) -> object:
    return (
        log.start_offset,
        log.end_offset,
        log.epochs.entries(),
        len(log.segments),
        read_all(log),
        log.reader.max_timestamp(end_offset=log.end_offset),
        [log.reader.offset_for_timestamp(NOW_MS + t, end_offset=log.end_offset) for t in range(0, 100, 7)],
    )


async def test_after_a_clean_shutdown_all_records_are_there_and_nothing_is_scanned() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    before = state_of(log)

    log = await place.restart()

    assert place.reports == []
    assert state_of(log) == before
    assert log.durability.recovery_point == 22
    assert log.topic_id == bytes(range(16))


async def test_after_a_clean_shutdown_only_the_end_of_the_log_is_read() -> None:
    place = Place(settings=LogSettings(index_interval_bytes=BATCH_BYTES))
    log = place.create()
    fill(log, 100)
    await place.directory.close()
    # Damage that a scan would find, but that an index skips.
    place.disk.overwrite(place.path("00000000000000000000.log"), 30 * BATCH_BYTES + 61, b"\xff" * 20)

    log = await place.start()

    assert log.end_offset == 200


@pytest.mark.parametrize(
    "damage",
    [b"\xff" * 30, b"\x00" * 30, b"\x00" * 8 + b"\x7f\xff\xff\xff"],
    ids=["negative length", "zeroes", "length beyond the end"],
)
async def test_a_log_that_was_damaged_after_a_clean_shutdown_is_recovered(damage: bytes) -> None:
    place = Place(settings=LogSettings(index_interval_bytes=10 * BATCH_BYTES))
    fill(place.create(), 3)
    await place.directory.close()
    place.disk.overwrite(place.path("00000000000000000000.log"), 2 * BATCH_BYTES, damage)

    log = await place.start()

    assert log.end_offset == 4
    (report,) = place.reports
    assert report.cut_bytes == BATCH_BYTES
    append(log, make_batch(2))
    assert [h.base_offset for h in read_all(log)] == [0, 2, 4]


async def test_a_log_that_was_cut_after_a_clean_shutdown_is_recovered() -> None:
    place = Place(settings=LogSettings(index_interval_bytes=10 * BATCH_BYTES))
    fill(place.create(), 3)
    await place.directory.close()
    place.disk.open(place.path("00000000000000000000.log")).truncate(3 * BATCH_BYTES - 8)

    log = await place.start()

    assert log.end_offset == 4


async def test_appends_continue_after_a_restart() -> None:
    place = Place(settings=SMALL)
    fill(place.create(), 6)
    log = await place.restart()

    info = append(log, make_batch(2))

    assert info.first_offset == 12
    assert [h.base_offset for h in read_all(log)] == list(range(0, 14, 2))


async def test_after_kill_nothing_is_missing() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    before = state_of(log)

    log = await place.kill()

    assert state_of(log) == before
    assert [report.is_cut for report in place.reports] == [False]


@pytest.mark.parametrize("missing", [1, 30, BATCH_BYTES - 1])
async def test_a_torn_tail_is_truncated_and_logged(missing: int, caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    log = place.create()
    fill(log, 3)
    log.segments.active.file().truncate(3 * BATCH_BYTES - missing)

    with caplog.at_level(logging.WARNING):
        log = await place.kill()

    assert log.end_offset == 4
    (report,) = place.reports
    assert (report.partition, report.end_offset, report.cut_bytes) == ("orders-0", 4, BATCH_BYTES - missing)
    assert f"byte {2 * BATCH_BYTES}" in report.reason
    assert "orders-0 was truncated to offset 4" in caplog.text
    append(log, make_batch(2))
    assert [h.base_offset for h in read_all(log)] == [0, 2, 4]


@pytest.mark.parametrize("at", [0, 8, 16, 17, 30, 61, BATCH_BYTES - 1])
async def test_a_damaged_batch_ends_the_log(at: int) -> None:
    place = Place(settings=SMALL)
    fill(place.create(), 11)
    place.disk.overwrite(place.path("00000000000000000000.log"), 2 * BATCH_BYTES + at, b"\x80")

    log = await place.kill()

    assert log.end_offset == 4
    assert len(log.segments) == 1
    (report,) = place.reports
    assert report.dropped_segments == 2
    assert report.cut_bytes == 9 * BATCH_BYTES
    assert not place.disk.exists(place.path("00000000000000000008.log"))


async def test_a_tail_of_zeroes_is_truncated() -> None:
    place = Place()
    fill(place.create(), 2)
    place.disk.overwrite(place.path("00000000000000000000.log"), 2 * BATCH_BYTES, bytes(5000))

    log = await place.kill()

    assert log.end_offset == 4
    assert log.segments.size_bytes() == 2 * BATCH_BYTES


async def test_lost_offsets_between_segments_end_the_log() -> None:
    place = Place(settings=SMALL)
    fill(place.create(), 11)
    whole = place.path("00000000000000000000.log")
    place.disk.open(whole).truncate(3 * BATCH_BYTES)

    log = await place.kill()

    assert log.end_offset == 6
    assert "offsets 6 to 7 are lost" in place.reports[0].reason


async def test_segments_below_the_recovery_point_are_not_scanned() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    await log.flush()
    await place.directory.checkpoint_recovery_points()
    place.disk.overwrite(place.path("00000000000000000000.log"), 70, b"\xff")

    log = await place.kill()

    assert log.end_offset == 22
    assert place.reports[0].scanned_segments == 1


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeroes"])
async def test_implausible_index_files_are_rebuilt(suffix: str, damage: str) -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    before = state_of(log)
    await place.directory.close()
    path = place.path(f"00000000000000000008.{suffix}")
    whole = place.disk.read_file(path)
    if damage == "missing":
        place.disk.remove(path)
    elif damage == "cut":
        place.disk.open(path).truncate(len(whole) - 1)
    else:
        place.disk.overwrite(path, 0, bytes(len(whole)))

    log = await place.start()

    assert state_of(log) == before
    await place.restart()
    assert place.disk.read_file(path) == whole


async def test_leftovers_of_a_crash_are_removed() -> None:
    place = Place()
    fill(place.create(), 2)
    for name in (
        "00000000000000000090.index",
        "00000000000000000050.log.deleted",
        "leader-epoch-checkpoint.tmp",
    ):
        place.disk.open(place.path(name), create=True).append((b"rubbish",))

    await place.kill()

    names = place.disk.list("/data/orders-0")
    assert names == [
        "00000000000000000000.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


async def test_a_torn_partition_metadata_is_no_topic_id() -> None:
    place = Place()
    fill(place.create(), 1)
    place.disk.open(place.path("partition.metadata")).truncate(12)

    assert (await place.kill()).topic_id == bytes(16)


async def test_epochs_are_rebuilt_from_batches_when_their_file_is_missing() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 11)
    expected = log.epochs.entries()
    if place.disk.exists(place.path("leader-epoch-checkpoint")):
        place.disk.remove(place.path("leader-epoch-checkpoint"))

    assert (await place.kill()).epochs.entries() == expected


async def test_a_disk_failure_while_loading_takes_the_directory_offline() -> None:
    place = Place()
    fill(place.create(), 1)
    place.disk.kill()
    place.disk.fail("/data/orders-0", errno.EIO, operations=["read"])

    with pytest.raises(
        Exception, match=r"Input/output error \(EIO\) while loading .*leader-epoch-checkpoint"
    ):
        await place.start()


async def test_producers_survive_a_kill_and_a_restart() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    for sequence in range(0, 20, 2):
        append(log, make_batch(2, producer_id=5, producer_epoch=1, base_sequence=sequence))

    for again in (place.kill, place.restart):
        log = await again()
        known = log.producers.get(5)
        assert known is not None
        assert (known.epoch, known.last_sequence, known.batches[-1].last_offset) == (1, 19, 19)
        repeated = make_batch(2, producer_id=5, producer_epoch=1, base_sequence=18)
        assert append(log, repeated).is_duplicate


async def test_snapshots_are_kept_where_segments_begin_and_at_the_end() -> None:
    place = Place(settings=SMALL)
    log = place.create()
    fill(log, 3)
    log = await place.restart()
    fill(log, 3)
    log = await place.restart()

    snapshots = [name for name in place.disk.list("/data/orders-0") if name.endswith(".snapshot")]
    assert snapshots == ["00000000000000000008.snapshot", "00000000000000000012.snapshot"]


async def test_a_damaged_snapshot_is_replaced_by_reading_the_log() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(2, producer_id=5, producer_epoch=0, base_sequence=0))
    await place.directory.close()
    place.disk.overwrite(place.path("00000000000000000002.snapshot"), 12, b"\xff")
    place.disk.remove("/data/.kafka_cleanshutdown")

    log = await place.start()

    known = log.producers.get(5)
    assert known is not None
    assert known.last_sequence == 1
