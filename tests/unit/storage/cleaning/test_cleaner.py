"""Compaction of a log on a simulated disk: after it, after a kill and after a power cut at any step of it, the log has
the last value of each key."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from harness.compaction import Writer, commit_everything, make_cleaner, records_of, table_of
from harness.storage import NOW_MS, InlineWorkers, Place, append, settle
from penstock.records import kernel
from penstock.records.batch import NewRecord
from penstock.runtime import Lane
from penstock.storage.settings import LogSettings
from penstock.storage.truncation import PendingTruncation, finish_all

T = TypeVar("T")

SETTINGS = LogSettings(
    segment_bytes=2000, index_interval_bytes=100, compact=True, delete=False, delete_retention_ms=1000
)
SEEDS = range(25)


class Killed(BaseException):
    """The process ends here."""


class KillingWorkers(InlineWorkers):
    """Ends the process before a step of a compaction."""

    def __init__(self) -> None:
        self.steps_left: int | None = None
        self.steps = 0

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        if lane is Lane.CLEANING:
            self.steps += 1
            if self.steps_left is not None:
                self.steps_left -= 1
                if self.steps_left < 0:
                    raise Killed
        return super().run(work, lane=lane)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_log_keeps_the_last_value_of_each_key(seed: int) -> None:
    place = Place(settings=SETTINGS, seed=seed)
    log = place.create()
    writer = Writer(seed)
    for _ in range(4):
        for _ in range(60):
            writer.write(log)
        await commit_everything(log)
        size_bytes = log.segments.size_bytes()
        place.clock.now_ms += writer.random.choice([0, 500, 1500])

        assert await make_cleaner(place).clean_one()

        assert table_of(log) == writer.table
        assert log.segments.size_bytes() < size_bytes
        assert not [name for name in place.disk.list(log.folder) if name.endswith((".swap", ".cleaned"))]
    log = await place.restart()
    assert table_of(log) == writer.table
    for _ in range(10):
        writer.write(log)
    assert table_of(log) == writer.table


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_kill_at_any_step_leaves_the_last_value_of_each_key(seed: int, power_cut: bool) -> None:
    workers = KillingWorkers()
    place = Place(settings=SETTINGS, seed=seed, workers=workers)
    log = place.create()
    writer = Writer(seed)
    for _ in range(3):
        for _ in range(60):
            writer.write(log)
        await commit_everything(log)
        end_offset = log.end_offset
        workers.steps_left = writer.random.randrange(30)
        with contextlib.suppress(Killed):
            await make_cleaner(place).clean_one()
        workers.steps_left = None

        log = await (place.crash() if power_cut else place.kill())
        log.high_watermark = log.end_offset

        assert log.end_offset == end_offset
        assert table_of(log) == writer.table
        assert log.producers.get(1) is None or log.producers.get(1).last_sequence == writer.sequences[1] - 1  # type: ignore[union-attr]


async def test_offsets_never_change() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    writer = Writer(1)
    for _ in range(100):
        writer.write(log)
    await commit_everything(log)
    before = {record.offset: record for record in records_of(log)}

    assert await make_cleaner(place).clean_one()

    after = records_of(log)
    assert 0 < len(after) < len(before)
    assert all(before[record.offset] == record for record in after)


async def test_tombstones_go_when_their_time_is_over() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()

    async def fill(key: bytes) -> None:
        for number in range(40):
            append(log, kernel.build_batch([NewRecord(NOW_MS, key, b"%d" % number)]))
        await commit_everything(log)

    append(log, kernel.build_batch([NewRecord(NOW_MS, b"deleted", b"1")]))
    append(log, kernel.build_batch([NewRecord(NOW_MS, b"deleted", None)]))
    await fill(b"a")
    assert await make_cleaner(place).clean_one()
    assert [r.value for r in records_of(log) if r.key == b"deleted"] == [None]

    place.clock.now_ms += 999
    await fill(b"b")
    assert await make_cleaner(place).clean_one()
    assert [r.value for r in records_of(log) if r.key == b"deleted"] == [None]

    place.clock.now_ms += 2
    await fill(b"c")
    assert await make_cleaner(place).clean_one()
    assert [r for r in records_of(log) if r.key == b"deleted"] == []


async def test_small_segments_are_merged() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    for number in range(400):
        append(log, kernel.build_batch([NewRecord(NOW_MS, b"%d" % (number % 3), b"x" * 40)]))
    await commit_everything(log)
    assert len(log.segments) > 10

    assert await make_cleaner(place).clean_one()
    for number in range(800):
        append(log, kernel.build_batch([NewRecord(NOW_MS, b"%d" % (number % 3), b"x" * 40)]))
    await commit_everything(log)
    assert await make_cleaner(place).clean_one()

    assert [segment.base_offset for segment in log.segments if segment.base_offset < 300] == [0]


async def test_a_log_below_the_dirty_ratio_is_left_alone() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    writer = Writer(3)
    for _ in range(100):
        writer.write(log)
    await commit_everything(log)
    cleaner = make_cleaner(place)

    assert await cleaner.clean_one()
    assert not await cleaner.clean_one()


async def test_records_of_an_open_transaction_and_behind_it_wait() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    writer = Writer(4)
    batch = kernel.build_batch(
        [NewRecord(NOW_MS, b"open", b"1")],
        producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True,
    )  # fmt: skip
    guard = log.producers.start_verification(9, 0, 0, is_version_2=False, now_ms=NOW_MS)
    log.append(memoryview(batch), [kernel.read_header(batch, 0)], leader_epoch=0, now_ms=NOW_MS, guard=guard)
    for _ in range(100):
        writer.write(log)
    await commit_everything(log)

    assert not await make_cleaner(place).clean_one()


async def test_records_younger_than_the_compaction_lag_wait() -> None:
    settings = LogSettings(segment_bytes=2000, compact=True, delete=False, min_compaction_lag_ms=60_000)
    place = Place(settings=settings)
    log = place.create()
    writer = Writer(5)
    for _ in range(100):
        writer.write(log)
    await commit_everything(log)

    assert not await make_cleaner(place).clean_one()
    place.clock.now_ms += 120_000
    assert await make_cleaner(place).clean_one()
    assert table_of(log) == writer.table


async def test_a_small_map_compacts_the_log_in_several_rounds() -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    for number in range(500):
        append(log, kernel.build_batch([NewRecord(NOW_MS, b"%d" % (number % 100), b"%d" % number)]))
    await commit_everything(log)
    cleaner = make_cleaner(place, map_bytes=24 * 60)

    rounds = 0
    while await cleaner.clean_one():
        rounds += 1

    assert rounds > 1
    assert table_of(log) == {b"%d" % (number % 100): b"%d" % number for number in range(400, 500)}


async def test_a_damaged_batch_makes_only_its_log_uncleanable(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(settings=SETTINGS)
    damaged, healthy = place.create(), place.create("others")
    for log in (damaged, healthy):
        writer = Writer(6)
        for _ in range(100):
            writer.write(log)
        await commit_everything(log)
    path = damaged.segments[0].path(".log")
    data = bytearray(place.disk.read_file(path))
    data[80] ^= 1
    damaged.segments[0].release_files()
    place.disk.write_file(path, bytes(data))
    cleaner = make_cleaner(place)

    results = [await cleaner.clean_one() for _ in range(3)]

    assert True in results
    assert cleaner.uncleanable == {damaged}
    assert "orders-0 cannot be compacted" in caplog.text
    assert damaged.refusal is None, "it still serves"
    assert table_of(healthy) == writer.table


async def test_a_full_disk_postpones_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(settings=SETTINGS)
    log = place.create()
    writer = Writer(7)
    for _ in range(100):
        writer.write(log)
    await commit_everything(log)
    real_open = place.disk.open

    def full(path: str, *, create: bool = False) -> Any:
        if path.endswith(".cleaned"):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return real_open(path, create=create)

    monkeypatch.setattr(place.disk, "open", full)
    cleaner = make_cleaner(place)
    size_bytes = log.segments.size_bytes()

    assert await cleaner.clean_one()
    assert not await cleaner.clean_one(), "it is tried again after log.cleaner.backoff.ms"

    assert log.refusal is None
    assert not cleaner.uncleanable
    assert log.segments.size_bytes() == size_bytes
    monkeypatch.undo()
    assert await make_cleaner(place).clean_one()
    assert log.segments.size_bytes() < size_bytes
    assert table_of(log) == writer.table


async def test_a_log_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    class DeletingWorkers(InlineWorkers):
        steps = 0

        def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
            future = super().run(work, lane=lane)
            if lane is Lane.CLEANING:
                self.steps += 1
                if self.steps == 8:
                    place.directory.delete(log)
                    place.create()
            return future

    place = Place(settings=SETTINGS, workers=DeletingWorkers())
    log = place.create()
    writer = Writer(8)
    for _ in range(100):
        writer.write(log)
    await commit_everything(log)

    await make_cleaner(place).clean_one()

    left = [name for name in place.disk.list("/data/orders-0") if name.endswith((".swap", ".cleaned"))]
    assert left == []


async def test_two_cleaners_do_not_compact_the_same_log() -> None:
    class Workers(InlineWorkers):
        def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(lambda: future.set_result(work()))
            return future

    place = Place(settings=SETTINGS, workers=Workers())
    tables = {}
    for name in ("orders", "others"):
        log = place.create(name)
        writer = Writer(9)
        for _ in range(100):
            writer.write(log)
        await commit_everything(log)
        tables[log] = writer.table
    cleaner = make_cleaner(place)

    await asyncio.gather(cleaner.clean_one(), cleaner.clean_one())
    while await cleaner.clean_one():
        pass

    for log, table in tables.items():
        assert table_of(log) == table
    assert not cleaner.uncleanable


class TruncatingWorkers(InlineWorkers):
    """Begins to truncate a log before a step of its compaction."""

    def __init__(self, truncate: Callable[[], PendingTruncation | None]) -> None:
        self._truncate = truncate
        self._is_truncated = False

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        if lane is Lane.CLEANING and not self._is_truncated:
            pending = self._truncate()
            if pending is not None:
                self._is_truncated = True
                finish_all([pending])
        return super().run(work, lane=lane)


async def test_a_truncation_does_not_remove_a_segment_that_was_just_put_in_place() -> None:
    def truncate() -> PendingTruncation | None:
        is_swapped = any(not segment.is_in_place for segment in log.segments)
        return log.truncation.begin(log.end_offset - 1) if is_swapped else None

    place = Place(settings=SETTINGS, workers=TruncatingWorkers(truncate))
    log = place.create()
    for number in range(100):
        append(log, kernel.build_batch([NewRecord(NOW_MS, b"%d" % (number % 70), b"%d" % number)]))
    await commit_everything(log)

    await make_cleaner(place).clean_one()
    await settle()

    assert log.end_offset == 99
    assert len(table_of(log)) == 70
    assert not [name for name in place.disk.list(log.folder) if name.endswith(".swap")]
    log = await place.restart()
    assert len(table_of(log)) == 70


async def test_records_that_replace_truncated_ones_are_not_replaced_by_compaction() -> None:
    """A truncation into a sealed segment makes it active. Written and sealed again, it has other records."""

    def truncate() -> PendingTruncation | None:
        nonlocal steps
        steps += 1
        return log.truncation.begin(5) if steps == 3 else None

    def fill(value: bytes, *, count: int) -> None:
        for _ in range(count):
            append(log, kernel.build_batch([NewRecord(NOW_MS, b"key", value)]), leader_epoch=1)

    class Workers(TruncatingWorkers):
        def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
            future = super().run(work, lane=lane)
            if steps == 3 and log.end_offset <= 5:
                log.refusal = None  # the truncation is durable at once
                fill(b"new", count=60)
                log.high_watermark = log.end_offset
            return future

    steps = 0
    place = Place(settings=SETTINGS, workers=Workers(truncate))
    log = place.create()
    fill(b"old", count=40)
    await commit_everything(log)
    cleaner = make_cleaner(place)

    await cleaner.clean_one()

    assert {record.value for record in records_of(log) if record.offset > 5} == {b"new"}
    assert not cleaner.uncleanable
