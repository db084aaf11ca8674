"""In-memory directories for storage tests, and batches, a clock and workers."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import BatchHeader, NewRecord
from penstock.records.control import TxnMarkerEntry, end_transaction_batch
from penstock.runtime import Lane, Runtime, Workers
from penstock.storage.directory import LogDirectory
from penstock.storage.directory_io import DirectoryIO, OpenFiles
from penstock.storage.log import AppendInfo, Log
from penstock.storage.settings import NEVER, LogSettings, StoreSettings
from penstock.storage.store import LogStore
from simulator.disk import SimulatedDisk

T = TypeVar("T")

TOPIC_ID = Uuid(bytes(range(16)))
NOW_MS = 1_700_000_000_000

QUIET = StoreSettings(
    retention_check_interval_ms=NEVER,
    recovery_point_interval_ms=NEVER,
    start_offset_interval_ms=NEVER,
    high_watermark_interval_ms=NEVER,
    producer_id_expiration_ms=NEVER,
    producer_id_expiration_check_interval_ms=NEVER,
)
"""No background tasks: a test runs them itself."""


class SetClock:
    """A clock that only the test moves."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class InlineWorkers:
    """Runs work at once, like a very fast thread."""

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        pass


class HeldWorkers:
    """Holds work until the test runs it, like a very slow disk."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.held.append((work, future))
        return future

    async def release(self) -> int:
        """Run all held work and the callbacks that wait for it; the number of pieces of work."""
        held, self.held = self.held, []
        for work, future in held:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
        await settle()
        return len(held)

    def close(self) -> None:
        pass


async def settle() -> None:
    """Run every callback that is due."""
    for _ in range(10):
        await asyncio.sleep(0)


def make_batch(
    count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"x" * 20, **fields: Any
) -> bytearray:
    """A batch of `count` records, one millisecond apart."""
    return kernel.build_batch([NewRecord(timestamp + i, None, value) for i in range(count)], **fields)


def append(log: Log, *batches: bytearray, leader_epoch: int = 0, now_ms: int = NOW_MS) -> AppendInfo:
    """Append batches as a leader does, all in one call."""
    joined = bytearray(b"".join(batches))
    headers = kernel.read_headers(joined)
    return log.append(memoryview(joined), headers, leader_epoch=leader_epoch, now_ms=now_ms)


def append_in_transaction(
    log: Log, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1, value: bytes = b"x" * 20
) -> AppendInfo:
    """Append a batch of an open transaction that its coordinator has verified."""
    batch = make_batch(
        count,
        value=value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    guard = None
    if not log.producers.has_open_transaction(producer_id, epoch):
        guard = log.producers.start_verification(
            producer_id, epoch, sequence, is_version_2=False, now_ms=NOW_MS
        )
    header = kernel.read_header(batch, 0)
    return log.append(memoryview(batch), [header], leader_epoch=0, now_ms=NOW_MS, guard=guard)


def append_marker(
    log: Log,
    producer_id: int,
    *,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> AppendInfo:
    """Append the marker of a transaction."""
    batch = end_transaction_batch(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW_MS,
    )
    marker = TxnMarkerEntry(producer_id, epoch, coordinator_epoch, is_commit, version)
    header = kernel.read_header(batch, 0)
    return log.append_marker(memoryview(batch), header, marker, leader_epoch=0, now_ms=NOW_MS)


def read_all(log: Log, offset: int | None = None) -> list[BatchHeader]:
    """Headers of all batches from `offset` to the end. Checks that each batch is complete."""
    offset = log.start_offset if offset is None else offset
    headers: list[BatchHeader] = []
    while True:
        found = log.read(offset, max_bytes=1 << 20, end_offset=log.end_offset, at_least_one=True)
        if found is None:
            return headers
        headers += kernel.check_batches(found.read())
        offset = headers[-1].next_offset


class Place:
    """One directory on a simulated disk, which can be stopped, crashed and restarted."""

    def __init__(
        self,
        *,
        settings: LogSettings | None = None,
        store_settings: StoreSettings = QUIET,
        disk: SimulatedDisk | None = None,
        workers: Any = None,
        seed: int = 0,
    ) -> None:
        self.clock = SetClock()
        self.disk = disk or SimulatedDisk(now_ms=self.clock.wall_ms)
        self.workers = workers or InlineWorkers()
        self.settings = settings or LogSettings()
        self.store_settings = store_settings
        self.random = random.Random(seed)
        self.directory = self._make_directory()

    def _make_directory(self) -> LogDirectory:
        io = DirectoryIO(
            "/data",
            disk=self.disk,
            workers=self.workers,
            clock=self.clock,
            rng=self.random,
            open_files=OpenFiles(self.store_settings.open_files_max),
        )
        directory = LogDirectory(io, settings=self.store_settings)
        directory.open(cluster_id="test", node_id=1)
        return directory

    def create(self, topic: str = "orders", partition: int = 0) -> Log:
        return self.directory.create(topic, partition, TOPIC_ID, self.settings)

    async def restart(self, topic: str = "orders", partition: int = 0) -> Log:
        """Close everything cleanly and restart."""
        await self.directory.close()
        return await self.start(topic, partition)

    async def kill(self, topic: str = "orders", partition: int = 0) -> Log:
        """As after kill -9: written data is kept, pending work is lost."""
        self.disk.kill()
        return await self.start(topic, partition)

    async def crash(self, topic: str = "orders", partition: int = 0) -> Log:
        """As after a power cut."""
        self.disk.crash(self.random)
        return await self.start(topic, partition)

    async def start(self, topic: str = "orders", partition: int = 0) -> Log:
        self.directory = self._make_directory()
        self.reports = await self.directory.load(lambda _: self.settings)
        log = self.directory.logs[topic, partition]
        log.set_topic_settings(self.settings)
        return log

    def path(self, name: str, topic: str = "orders", partition: int = 0) -> str:
        return f"/data/{topic}-{partition}/{name}"


def make_runtime(disk: SimulatedDisk, *, clock: SetClock | None = None, seed: int = 0) -> Runtime:
    """A runtime with a disk and no network."""
    return Runtime(
        clock=clock or SetClock(),
        random=random.Random(seed),
        disk=disk,
        network=None,  # type: ignore[arg-type]
        workers=InlineWorkers(),
    )


def make_store(
    disk: SimulatedDisk,
    paths: Sequence[str] = ("/data",),
    *,
    settings: StoreSettings = QUIET,
    workers: Workers | None = None,
) -> LogStore:
    runtime = make_runtime(disk)
    return LogStore(
        paths,
        runtime=dataclasses.replace(runtime, workers=workers or runtime.workers),
        settings=settings,
        topic_settings=lambda _: LogSettings(),
        node_id=1,
        cluster_id="test",
    )
