"""Moving a log to another directory of the same node while it serves (AlterReplicaLogDirs).

A copy grows beside the original, in a folder whose name ends in `-future`, until it has everything and all of
it is synced. Then, in one step of the event loop, the log goes on in the copy's files: whoever holds the
`Log` notices nothing. A move that is not finished when the node stops is forgotten, and its copy is removed
by the next start.

Workers read the original, and `replica.alter.log.dirs.io.max.bytes.per.second` limits how fast. The event loop appends
what they read, in slices small enough that producers and consumers do not notice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from penstock.records import kernel
from penstock.runtime.network import FileSlice
from penstock.runtime.workers import Lane
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import DirectoryOffline, LogClosed, OffsetOutOfRange
from penstock.storage.log import Log
from penstock.storage.pages import read_cached, waiting_for_disk, when_loaded
from penstock.storage.throttle import Throttle

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20  # read at once by a worker
# Appended in one turn of the event loop: less than a millisecond, even if every record is a batch of its own.
SLICE_BYTES = 64 * 1024
# After so many flushes that did not catch up with the writers, the last bytes are synced on the loop.
ROUNDS_MAX = 8


class Move:
    """One log on its way from one directory to another."""

    def __init__(self, log: Log, source: LogDirectory, target: LogDirectory, throttle: Throttle) -> None:
        self.log = log
        self._throttle = throttle
        self.target = target
        self.copy: Log | None = None
        self._source = source
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def offset_lag(self) -> int:
        """How much the copy still lacks."""
        return self.log.end_offset - (
            self.copy.end_offset if self.copy is not None else self.log.start_offset
        )

    async def wait(self) -> None:
        """Until it is done, or given up."""
        await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Give it up, and remove the copy."""
        self._task.cancel()
        self._drop_copy()

    async def _run(self) -> None:
        try:
            await self._copy_and_swap()
        except (DirectoryOffline, LogClosed) as error:
            logger.warning("moving %s to %s is given up: %s", self.log, self.target.path, error)
            self._drop_copy()
        except Exception:
            # The log itself is untouched: it stays where it is, and the move can be requested again.
            logger.exception("moving %s to %s failed", self.log, self.target.path)
            self._drop_copy()

    async def _copy_and_swap(self) -> None:
        log = self.log
        rounds = 0
        while True:
            copy = await self._catch_up()
            await copy.flush()
            rounds += 1
            if rounds >= ROUNDS_MAX and self._is_valid(copy):
                while copy.end_offset < log.end_offset:
                    self._copy_now(copy)
                copy.sync_now()
            if self._is_valid(copy) and copy.recovery_point == copy.end_offset == log.end_offset:
                break
        copy.advance_start(log.start_offset)
        self._source.hand_over(log, copy, self.target)
        self.copy = None
        logger.info("%s was moved from %s to %s", log, self._source.path, self.target.path)

    async def _catch_up(self) -> Log:
        """A copy that has what the log had a moment ago; begun anew where truncation or retention made it worthless."""
        log = self.log
        while True:
            await log.when_settled()
            if self.copy is None or not self._is_valid(self.copy):
                self._drop_copy()
                self.copy = await when_loaded(self._begin, log.volume.workers)
            end_offset = log.end_offset
            await self._copy_chunk(self.copy)
            if self._is_valid(self.copy) and self.copy.end_offset >= end_offset:
                return self.copy
            await asyncio.sleep(0)

    def _begin(self) -> Log:
        log = self.log
        self._generation = log.generation
        start_offset = log.start_offset
        first = log.read(start_offset, max_bytes=1, end_offset=log.end_offset, at_least_one=True)
        if first is not None:
            start_offset = kernel.read_header(read_cached(first), 0).base_offset
        return self.target.create_future(log, start_offset=start_offset)

    def _is_valid(self, copy: Log) -> bool:
        return self.log.generation == self._generation and self.log.start_offset <= copy.end_offset

    async def _copy_chunk(self, copy: Log) -> None:
        """Copy what a worker reads at once."""
        workers = self.log.volume.workers
        found = await when_loaded(lambda: self._find(copy), workers)
        if found is None:
            return
        await self._throttle.take(found.size)
        try:
            data = await workers.run(found.read, lane=Lane.BACKGROUND)
        except OSError as error:
            found.failed(error)
            raise self.log.volume.refusal() from error
        for start, end in _slices(data):
            if start > 0:
                await asyncio.sleep(0)
            if self.log.generation != self._generation:
                return  # truncated meanwhile; the caller sees that the copy is no longer valid
            self._append(copy, data[start:end])

    def _copy_now(self, copy: Log) -> None:
        """Copy the last bytes without giving way to writers. They were written just now, so they are in memory."""
        found = waiting_for_disk(lambda: self._find(copy))
        if found is not None:
            self._append(copy, found.read())

    def _find(self, copy: Log) -> FileSlice | None:
        """What comes next."""
        log = self.log
        try:
            return log.read(
                max(copy.end_offset, log.start_offset),
                max_bytes=CHUNK_BYTES,
                end_offset=log.end_offset,
                at_least_one=True,
            )
        except OffsetOutOfRange:
            return None  # truncated or trimmed meanwhile; the caller sees that the copy is no longer valid

    def _append(self, copy: Log, batches: bytes) -> None:
        copy.high_watermark = self.log.high_watermark  # or it would remember every transaction that has ended
        now_ms = self.log.volume.clock.wall_ms()
        copy.append_as_follower(memoryview(bytearray(batches)), now_ms=now_ms)

    def _drop_copy(self) -> None:
        copy, self.copy = self.copy, None
        if copy is not None:
            self.target.drop_future(copy)


def _slices(data: bytes) -> Iterator[tuple[int, int]]:
    """Where whole batches of about `SLICE_BYTES` begin and end."""
    start = position = 0
    for header in kernel.read_headers(data):
        if position > start and position + header.size_bytes - start > SLICE_BYTES:
            yield start, position
            start = position
        position += header.size_bytes
    if position > start:
        yield start, position
