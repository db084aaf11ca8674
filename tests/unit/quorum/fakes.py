"""A metadata log in memory that tells what a power cut would leave of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.quorum.log import DataBatch
from penstock.records import kernel
from penstock.records.batch import place
from penstock.runtime import Lane

T = TypeVar("T")


class MemoryLog:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.synced_count = 0
        self.sync_count = 0
        self.sync_gate = asyncio.Event()
        """Clear it to make syncs wait."""
        self.sync_gate.set()
        self.failure: OSError | None = None
        self.append_failure: OSError | None = None

    @property
    def end_offset(self) -> int:
        return kernel.read_header(self.batches[-1]).next_offset if self.batches else 0

    @property
    def last_epoch(self) -> int:
        return kernel.read_header(self.batches[-1]).leader_epoch if self.batches else 0

    def append(self, batch: bytearray, *, epoch: int) -> int:
        if self.append_failure is not None:
            raise self.append_failure
        place(batch, 0, base_offset=self.end_offset, leader_epoch=epoch)
        self.batches.append(bytes(batch))
        return self.end_offset

    async def sync(self) -> None:
        count = len(self.batches)
        self.sync_count += 1
        await self.sync_gate.wait()
        if self.failure is not None:
            raise self.failure
        self.synced_count = max(self.synced_count, count)

    def read(self, offset: int) -> bytes:
        for batch in self.batches:
            if kernel.read_header(batch).last_offset >= offset:
                return batch
        return b""

    def cut_power(self) -> None:
        del self.batches[self.synced_count :]
        self.failure = None
        self.sync_gate.set()


class InlineWorkers:
    """Work that is done before the caller looks."""

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.set_result(work())
        return future

    def close(self) -> None:
        pass


class FixedClock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Recorder:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.replayed: list[DataBatch] = []
        self.high_watermarks: list[int] = []
        self.has_resigned = False

    def replay(self, batches: Iterator[DataBatch]) -> None:
        self.replayed = list(batches)

    def committed(self, high_watermark: int) -> None:
        self.high_watermarks.append(high_watermark)

    def resigned(self) -> None:
        self.has_resigned = True
