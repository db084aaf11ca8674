"""A metadata log in memory that tracks what survives a power cut, and a listener that records its notifications."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.quorum.log import DataBatch
from penstock.quorum.messages import SnapshotId
from penstock.records import kernel
from penstock.records.batch import Buffer, assign_offsets
from penstock.runtime import Lane
from penstock.runtime.disk import RealDisk, RealFile

T = TypeVar("T")

TRUNCATION_S = 0.05


class MemoryLog:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start_offset = 0
        self.committed_offset = 0
        self.synced_count = 0
        self.sync_count = 0
        self.sync_gate = asyncio.Event()
        """Clear it to make syncs wait."""
        self.sync_gate.set()
        self.failure: OSError | None = None
        self.append_failure: OSError | None = None
        self.high_watermark = 0
        self.truncations: list[int] = []
        self.is_busy = False
        self.read_s = 0.0
        """How long a read takes."""

    @property
    def end_offset(self) -> int:
        return kernel.read_header(self.batches[-1]).next_offset if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        return kernel.read_header(self.batches[-1]).leader_epoch if self.batches else 0

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.batches))

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        found = None
        for batch in self.batches:
            header = kernel.read_header(batch)
            if header.leader_epoch <= epoch:
                found = header.leader_epoch, header.next_offset
        return found

    def append(self, batch: bytearray, *, epoch: int) -> int:
        self._check()
        if self.append_failure is not None:
            raise self.append_failure
        assign_offsets(batch, 0, base_offset=self.end_offset, leader_epoch=epoch)
        self.batches.append(bytes(batch))
        return self.end_offset

    def append_fetched(self, batches: Buffer) -> int:
        self._check()
        if self.append_failure is not None:
            raise self.append_failure
        position = 0
        for header in kernel.read_headers(batches):
            self.batches.append(bytes(batches[position : position + header.size_bytes]))
            position += header.size_bytes
        return self.end_offset

    async def prepare(self) -> None:
        pass

    async def sync(self) -> None:
        self._check()
        count = len(self.batches)
        self.sync_count += 1
        await self.sync_gate.wait()
        if self.failure is not None:
            raise self.failure
        self.synced_count = max(self.synced_count, count)

    async def truncate(self, end_offset: int) -> None:
        self.truncations.append(end_offset)
        await self._be_busy()
        while self.batches and kernel.read_header(self.batches[-1]).next_offset > end_offset:
            self.batches.pop()
        self.synced_count = min(self.synced_count, len(self.batches))

    async def _be_busy(self) -> None:
        """As a log in `storage`: everything else is rejected until the truncation is on disk."""
        self.is_busy = True
        await asyncio.sleep(TRUNCATION_S)
        self.is_busy = False

    async def truncate_fully(self, start_offset: int) -> None:
        await self._be_busy()
        self.batches.clear()
        self.start_offset, self.synced_count = start_offset, 0

    def delete_before(self, start_offset: int) -> None:
        while self.batches and kernel.read_header(self.batches[0]).next_offset <= start_offset:
            self.batches.pop(0)
            self.synced_count = max(0, self.synced_count - 1)
        self.start_offset = start_offset

    def set_high_watermark(self, high_watermark: int) -> None:
        assert self.high_watermark <= high_watermark <= self.end_offset
        self.high_watermark = high_watermark

    async def load(self, offset: int, *, max_bytes: int, end_offset: int) -> bytes:
        await asyncio.sleep(self.read_s)
        self._check()
        if not self.start_offset <= offset <= self.end_offset:
            raise OSError(f"offset {offset} is out of range")
        found = b""
        for batch in self.batches:
            header = kernel.read_header(batch)
            is_wanted = header.last_offset >= offset and header.next_offset <= end_offset
            if is_wanted and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return found

    def _check(self) -> None:
        if self.is_busy:
            raise OSError("the log is busy")

    def cut_power(self) -> None:
        self.is_busy = False
        del self.batches[self.synced_count :]
        self.failure = None
        self.high_watermark = 0
        self.sync_gate.set()


class InlineWorkers:
    """Work that is done before the caller looks."""

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        pass


class SlowWorkers(InlineWorkers):
    """Work that takes as long as the disk says, with `owed_s`."""

    def __init__(self) -> None:
        self.owed_s = 0.0

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        done = super().run(work, lane=lane)
        owed_s, self.owed_s = self.owed_s, 0.0
        return asyncio.ensure_future(_after(owed_s, done)) if owed_s else done


async def _after(duration_s: float, done: asyncio.Future[T]) -> T:
    await asyncio.sleep(duration_s)
    return await done


class SlowSnapshotDisk(RealDisk):
    """Every sync of a file that is being written takes `sync_s`."""

    def __init__(self, workers: SlowWorkers, sync_s: float) -> None:
        self.sync_count = 0
        self._workers = workers
        self._sync_s = sync_s

    def open(self, path: str, *, create: bool = False) -> RealFile:
        if not path.endswith(".part"):
            return super().open(path, create=create)
        return _SlowFile(path, os.open(path, os.O_RDWR | os.O_CREAT), self._syncs)

    def _syncs(self) -> None:
        self.sync_count += 1
        self._workers.owed_s += self._sync_s


class _SlowFile(RealFile):
    def __init__(self, path: str, fd: int, on_sync: Callable[[], None]) -> None:
        super().__init__(path, fd)
        self._on_sync = on_sync

    def sync(self) -> None:
        self._on_sync()
        super().sync()


class FixedClock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Recorder:
    """A listener that records its notifications."""

    def __init__(self) -> None:
        self.replayed: list[DataBatch] = []
        self.high_watermarks: list[int] = []
        self.elections: list[int] = []
        self.leaders: list[tuple[int, int]] = []
        self.snapshots: list[SnapshotId] = []
        self.has_resigned = False

    def load_snapshot(self, batches: Iterator[DataBatch], snapshot_id: SnapshotId) -> None:
        self.replayed = list(batches)
        self.snapshots.append(snapshot_id)

    def replay(self, batches: Sequence[DataBatch]) -> None:
        self.replayed += batches

    def elected(self, epoch: int) -> None:
        self.elections.append(epoch)

    def committed(self, high_watermark: int) -> None:
        self.high_watermarks.append(high_watermark)

    def resigned(self) -> None:
        self.has_resigned = True

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))
