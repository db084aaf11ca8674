"""One partition's log: appended batches are read back, at every offset, from every segment."""

from __future__ import annotations

import errno

import pytest

from harness.storage import NOW_MS, Place, append, make_batch, read_all
from penstock.records import kernel
from penstock.records.batch import TimestampType
from penstock.storage.errors import (
    BatchTooLarge,
    DirectoryOffline,
    LogClosed,
    OffsetOutOfRange,
    UnexpectedOffset,
)
from penstock.storage.settings import LogSettings
from simulator.disk import SimulatedDisk

BATCH_BYTES = len(make_batch(2))


async def test_an_append_assigns_offsets_and_epoch() -> None:
    log = Place().create()

    first = append(log, make_batch(3), leader_epoch=4)
    second = append(log, make_batch(2), make_batch(1), leader_epoch=4)

    assert (first.first_offset, first.last_offset, first.is_duplicate) == (0, 2, False)
    assert (second.first_offset, second.last_offset) == (3, 5)
    assert log.end_offset == log.durability.end_offset == 6
    assert [(h.base_offset, h.leader_epoch) for h in read_all(log)] == [(0, 4), (3, 4), (5, 4)]


async def test_append_time_is_returned_only_for_log_append_time() -> None:
    log = Place().create()

    assert append(log, make_batch(2)).append_time_ms == -1
    stamped = make_batch(2, timestamp=NOW_MS + 5, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert append(log, stamped).append_time_ms == NOW_MS + 6


async def test_several_batches_are_one_write() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(1))
    writes = 0
    file = log.segments.active.file()
    real_append = file.append

    def counting(buffers: object) -> int:
        nonlocal writes
        writes += 1
        return real_append(buffers)  # type: ignore[arg-type]

    file.append = counting  # type: ignore[method-assign,assignment]
    append(log, make_batch(1), make_batch(2), make_batch(3))

    assert writes == 1


async def test_a_full_segment_rolls() -> None:
    place = Place(settings=LogSettings(segment_bytes=3 * BATCH_BYTES))
    log = place.create()

    for _ in range(7):
        append(log, make_batch(2))

    assert len(log.segments) == 3
    assert place.disk.exists(place.path("00000000000000000006.log"))
    assert place.disk.exists(place.path("00000000000000000012.snapshot"))
    assert [h.base_offset for h in read_all(log)] == [0, 2, 4, 6, 8, 10, 12]


async def test_segments_roll_by_record_timestamps() -> None:
    log = Place(settings=LogSettings(segment_ms=1000)).create()

    append(log, make_batch(1, timestamp=5000))
    append(log, make_batch(1, timestamp=6000))
    assert len(log.segments) == 1
    append(log, make_batch(1, timestamp=6001))
    assert len(log.segments) == 2


async def test_segments_without_timestamps_roll_by_the_clock() -> None:
    place = Place(settings=LogSettings(segment_ms=1000))
    log = place.create()

    append(log, make_batch(1, timestamp=-1))
    append(log, make_batch(1, timestamp=-1), now_ms=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, make_batch(1, timestamp=-1), now_ms=NOW_MS + 1001)
    assert len(log.segments) == 2


async def test_jitter_makes_logs_roll_at_different_times() -> None:
    place = Place(settings=LogSettings(segment_ms=1_000_000, segment_jitter_ms=1_000_000))
    logs = [place.create(partition=partition) for partition in range(8)]

    for log in logs:
        for step in range(11):
            append(log, make_batch(1, timestamp=step * 100_000))

    assert len({log.segments.active.base_offset for log in logs}) > 2


async def test_a_full_index_rolls_the_segment() -> None:
    settings = LogSettings(segment_index_bytes=32, index_interval_bytes=0)
    log = Place(settings=settings).create()

    for step in range(6):
        append(log, make_batch(1, timestamp=NOW_MS + step))

    assert len(log.segments) > 1


async def test_offsets_too_far_apart_for_an_index_roll_the_segment() -> None:
    log = Place().create()
    append(log, make_batch(1))
    far = make_batch(1, base_offset=3_000_000_000)

    log.append_as_follower(memoryview(far), now_ms=NOW_MS)

    assert len(log.segments) == 2
    assert [h.base_offset for h in read_all(log)] == [0, 3_000_000_000]


async def test_the_first_batch_of_an_empty_log_may_have_any_offset() -> None:
    place = Place()
    log = place.create()

    log.append_as_follower(memoryview(make_batch(1, base_offset=3_000_000_000)), now_ms=NOW_MS)

    assert len(log.segments) == 1
    assert log.segments[0].base_offset == 3_000_000_000
    assert log.end_offset == 3_000_000_001


async def test_an_append_larger_than_a_segment_is_refused() -> None:
    log = Place(settings=LogSettings(segment_bytes=BATCH_BYTES)).create()

    with pytest.raises(BatchTooLarge, match=r"segment\.bytes"):
        append(log, make_batch(3))

    assert log.end_offset == 0


async def test_reading_ends_between_batches() -> None:
    log = Place().create()
    for _ in range(10):
        append(log, make_batch(2))

    found = log.read(4, max_bytes=3 * BATCH_BYTES + 7, end_offset=20, at_least_one=False)

    assert found is not None
    assert [h.base_offset for h in kernel.check_batches(found.read())] == [4, 6, 8]


async def test_reading_in_the_middle_of_a_batch_returns_the_whole_batch() -> None:
    log = Place().create()
    for _ in range(3):
        append(log, make_batch(2))

    found = log.read(3, max_bytes=1 << 20, end_offset=6, at_least_one=True)

    assert found is not None
    assert [h.base_offset for h in kernel.check_batches(found.read())] == [2, 4]


async def test_a_first_batch_that_is_too_large_is_returned_only_with_at_least_one() -> None:
    log = Place().create()
    append(log, make_batch(2))
    append(log, make_batch(2))

    assert log.read(0, max_bytes=10, end_offset=4, at_least_one=False) is None
    found = log.read(0, max_bytes=10, end_offset=4, at_least_one=True)
    assert found is not None
    assert len(found) == BATCH_BYTES


async def test_reading_stops_at_the_end_offset() -> None:
    log = Place().create()
    for _ in range(5):
        append(log, make_batch(2))

    found = log.read(2, max_bytes=1 << 20, end_offset=6, at_least_one=True)

    assert found is not None
    assert [h.base_offset for h in kernel.check_batches(found.read())] == [2, 4]
    assert log.read(6, max_bytes=1 << 20, end_offset=6, at_least_one=True) is None
    assert log.read(10, max_bytes=1 << 20, end_offset=10, at_least_one=True) is None


async def test_a_reader_at_the_end_of_the_log_reads_neither_index_nor_log() -> None:
    place = Place(settings=LogSettings(segment_bytes=50 * BATCH_BYTES))
    log = place.create()
    offset = 0
    for _ in range(200):
        append(log, make_batch(2))
        place.disk.fail("/data", errno.EIO, operations=["read", "open"])
        found = log.read(offset, max_bytes=1 << 20, end_offset=log.end_offset, at_least_one=True)
        place.disk.heal()
        assert found is not None
        assert kernel.check_batch(found.read()).base_offset == offset
        offset = log.end_offset


@pytest.mark.parametrize("offset", [-1, 7])
async def test_offsets_outside_the_log_are_refused(offset: int) -> None:
    log = Place().create()
    append(log, make_batch(6))

    with pytest.raises(OffsetOutOfRange, match=r"of orders-0 is out of range: the log has offsets 0 to 6"):
        log.read(offset, max_bytes=100, end_offset=6, at_least_one=True)


async def test_a_follower_keeps_the_offsets_and_epochs_of_the_leader() -> None:
    leader, follower = Place().create(), Place().create()
    for epoch in (1, 1, 3):
        append(leader, make_batch(2), leader_epoch=epoch)
    found = leader.read(0, max_bytes=1 << 20, end_offset=6, at_least_one=True)
    assert found is not None

    info = follower.append_as_follower(memoryview(found.read()), now_ms=NOW_MS)

    assert (info.first_offset, info.last_offset) == (0, 5)
    assert follower.epochs.entries() == [(1, 0), (3, 4)]
    assert read_all(follower) == read_all(leader)


async def test_a_follower_ignores_an_incomplete_batch() -> None:
    follower = Place().create()
    batches = make_batch(2) + make_batch(2, base_offset=2)

    follower.append_as_follower(memoryview(batches)[:-5], now_ms=NOW_MS)

    assert follower.end_offset == 2


async def test_a_follower_can_append_more_than_a_segment_at_once() -> None:
    follower = Place(settings=LogSettings(segment_bytes=2 * BATCH_BYTES)).create()
    batches = bytearray().join(make_batch(2, base_offset=offset) for offset in range(0, 14, 2))

    follower.append_as_follower(memoryview(batches), now_ms=NOW_MS)

    assert [h.base_offset for h in read_all(follower)] == list(range(0, 14, 2))
    assert len(follower.segments) == 4


async def test_a_failure_behind_the_write_does_not_let_a_follower_write_a_batch_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError("a bug")

    follower = Place().create()
    with monkeypatch.context() as patch:
        patch.setattr("penstock.storage.log.note_copied", broken)
        with pytest.raises(KeyError):
            follower.append_as_follower(memoryview(make_batch(2)), now_ms=NOW_MS)

    assert follower.end_offset == 2
    follower.append_as_follower(memoryview(make_batch(2, base_offset=2)), now_ms=NOW_MS)
    assert [header.base_offset for header in read_all(follower)] == [0, 2]


async def test_a_follower_refuses_offsets_that_go_back() -> None:
    follower = Place().create()
    follower.append_as_follower(memoryview(make_batch(4)), now_ms=NOW_MS)

    with pytest.raises(UnexpectedOffset):
        follower.append_as_follower(memoryview(make_batch(2, base_offset=3)), now_ms=NOW_MS)


async def test_lookup_by_time_finds_the_first_record_that_is_not_earlier() -> None:
    settings = LogSettings(segment_bytes=4 * BATCH_BYTES, index_interval_bytes=BATCH_BYTES)
    log = Place(settings=settings).create()
    for step in range(20):
        append(log, make_batch(2, timestamp=1000 + step * 10), leader_epoch=2)

    for timestamp in range(990, 1192):
        expected = next(
            (
                (2 * step + i, 1000 + step * 10 + i)
                for step in range(20)
                for i in range(2)
                if 1000 + step * 10 + i >= timestamp
            ),
            None,
        )
        found = log.reader.offset_for_timestamp(timestamp, end_offset=40)
        assert (found and (found.offset, found.timestamp_ms)) == expected
        if found:
            assert found.leader_epoch == 2


async def test_lookup_by_time_stays_inside_start_and_end() -> None:
    log = Place().create()
    for step in range(10):
        append(log, make_batch(2, timestamp=1000 + step * 10))
    log.advance_start(6)

    assert log.reader.offset_for_timestamp(0, end_offset=20) == (6, 1030, 0)
    assert log.reader.offset_for_timestamp(1090, end_offset=18) is None


async def test_max_timestamp_returns_the_first_record_that_has_it() -> None:
    log = Place(settings=LogSettings(segment_bytes=2 * BATCH_BYTES)).create()
    for timestamp in (10, 500, 20, 500, 30):
        append(log, make_batch(2, timestamp=timestamp))

    assert log.reader.max_timestamp(end_offset=10) == (3, 501, 0)
    assert log.reader.max_timestamp(end_offset=3) is None


async def test_an_empty_log_has_no_latest_time() -> None:
    assert Place().create().reader.max_timestamp(end_offset=0) is None


async def test_a_closed_log_refuses_everything() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(1))
    await place.directory.close()

    with pytest.raises(LogClosed):
        append(log, make_batch(1))


async def test_few_open_files_are_enough_for_many_segments() -> None:
    settings = LogSettings(segment_bytes=BATCH_BYTES)
    place = Place(settings=settings)
    place.directory.io.open_files.limit = 2
    log = place.create()

    for _ in range(30):
        append(log, make_batch(2))

    assert [h.base_offset for h in read_all(log)] == list(range(0, 60, 2))


async def test_segments_are_preallocated_only_with_preallocate() -> None:
    for preallocate, is_refused in ((False, False), (True, True)):
        place = Place(
            settings=LogSettings(segment_bytes=1 << 20, preallocate=preallocate),
            disk=SimulatedDisk(capacity_bytes=100_000),
        )
        try:
            place.create()
        except DirectoryOffline:
            assert is_refused
        else:
            assert not is_refused


async def test_preallocated_space_is_not_visible() -> None:
    place = Place(settings=LogSettings(segment_bytes=3 * BATCH_BYTES, preallocate=True))
    log = place.create()
    for _ in range(7):
        append(log, make_batch(2))

    assert log.segments.size_bytes() == 7 * BATCH_BYTES
    log = await place.restart()
    assert [h.base_offset for h in read_all(log)] == list(range(0, 14, 2))
