"""Moves a log to another directory of the same node while it serves (AlterReplicaLogDirs).

A future log, in a folder whose name ends in `-future`, is filled until it is complete and synced. Then, in one step of
the event loop, the log switches to its files; users of the `Log` notice nothing. A move that is not finished when the
node stops is dropped, and the next start deletes the future log.

Workers read the original, limited by `replica.alter.log.dirs.io.max.bytes.per.second`. The event loop appends what
they read, in slices small enough not to delay producers and consumers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from penstock.records import kernel
from penstock.runtime.network import FileSlice
from penstock.runtime.workers import Lane
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import DirectoryOffline, LogBusy, LogClosed, OffsetOutOfRange
from penstock.storage.log import Log
from penstock.storage.pages import read_cached, waiting_for_disk, when_loaded
from penstock.storage.throttle import Throttle

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20  # read at once by a worker
# Appended in one turn of the event loop: less than a millisecond, even if every record is a batch of its own.
SLICE_BYTES = 64 * 1024
# After so many flushes that did not catch up with producers, the last bytes are copied and synced on the event loop,
# unless they are more than CHUNK_BYTES.
ROUNDS_MAX = 8


class Move:
    """The move of one log from one directory to another."""

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
        """How far the copy is behind the log."""
        return self.log.end_offset - (
            self.copy.end_offset if self.copy is not None else self.log.start_offset
        )

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when it is done or cancelled."""
        self._task.add_done_callback(lambda _: callback())

    async def wait(self) -> None:
        """Return when it is done or cancelled."""
        await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Cancel the move and delete the copy."""
        self._task.cancel()
        self._drop_copy()

    async def _run(self) -> None:
        try:
            await self._copy_and_swap()
        except (DirectoryOffline, LogClosed) as error:
            logger.warning("the move of %s to %s was cancelled: %s", self.log, self.target.path, error)
            self._drop_copy()
        except Exception:
            # The log stays in its directory, and the move can be requested again.
            logger.exception("moving %s to %s failed", self.log, self.target.path)
            self._drop_copy()

    async def _copy_and_swap(self) -> None:
        log = self.log
        rounds = 0
        while True:
            copy = await self._catch_up()
            await copy.flush()
            rounds += 1
            if rounds >= ROUNDS_MAX and self._is_valid(copy) and self._lacks_little(copy):
                while copy.end_offset < log.end_offset:
                    self._copy_now(copy)
                copy.durability.sync_now()
            if self._is_valid(copy) and copy.durability.recovery_point == copy.end_offset == log.end_offset:
                break
        copy.advance_start(log.start_offset)
        self._swap(copy)

    def _swap(self, copy: Log) -> None:
        """Switch the log to the files of the copy, and delete its old files.

        The copy is renamed first, and durably: a crash in between leaves two logs, which the next start detects, and
        never none.
        """
        log, old_folder = self.log, self.log.folder
        self.target.adopt(log, copy)
        self.copy = None
        logger.info("%s was moved from %s to %s", log, self._source.path, self.target.path)
        with suppress(DirectoryOffline):  # the source directory failed, which is logged; the log has left it
            self._source.moved_away(log, old_folder)

    async def _catch_up(self) -> Log:
        """A copy that has almost caught up; restarted if truncation or retention made it invalid."""
        log = self.log
        while True:
            await log.truncation.wait()
            if self.copy is None or not self._is_valid(self.copy):
                self._drop_copy()
                try:
                    self.copy = await when_loaded(self._begin, log.io.workers)
                except LogBusy:
                    continue  # a truncation began while pages were loaded
            end_offset = log.end_offset
            await self._copy_chunk(self.copy)
            if self._is_valid(self.copy) and self.copy.end_offset >= end_offset:
                return self.copy
            await asyncio.sleep(0)

    def _begin(self) -> Log:
        log = self.log
        self._generation = log.durability.generation
        start_offset = log.start_offset
        first = log.read(start_offset, max_bytes=1, end_offset=log.end_offset, at_least_one=True)
        if first is not None:
            with self._reading(first):
                header = kernel.read_header(read_cached(first), 0)
            start_offset = header.base_offset
        return self.target.create_future(log, start_offset=start_offset)

    def _is_valid(self, copy: Log) -> bool:
        return self.log.durability.generation == self._generation and self.log.start_offset <= copy.end_offset

    def _lacks_little(self, copy: Log) -> bool:
        """Whether what was written since the last chunk can be copied in one turn of the event loop.

        It cannot if many bytes were appended while that chunk waited for the throttle.
        """
        log = self.log
        if copy.end_offset >= log.end_offset:
            return True
        return waiting_for_disk(lambda: log.reader.size_from(copy.end_offset)) <= CHUNK_BYTES

    async def _copy_chunk(self, copy: Log) -> None:
        """Copy one chunk, which a worker reads."""
        workers = self.log.io.workers
        found = await when_loaded(lambda: self._find(copy), workers)
        if found is None:
            return
        await self._throttle.take(found.size)
        with self._reading(found):
            data = await workers.run(found.read, lane=Lane.BACKGROUND)
        for start, end in _slices(data):
            if start > 0:
                await asyncio.sleep(0)
            if self.log.durability.generation != self._generation:
                return  # truncated meanwhile; the caller checks that the copy is still valid
            self._append(copy, data[start:end])

    def _copy_now(self, copy: Log) -> None:
        """Copy the last bytes without yielding. They were just written, so they are in memory."""
        found = waiting_for_disk(lambda: self._find(copy))
        if found is not None:
            with self._reading(found):
                data = found.read()
            self._append(copy, data)

    @contextmanager
    def _reading(self, piece: FileSlice) -> Iterator[None]:
        """An OSError inside takes the directory of the log offline."""
        try:
            yield
        except OSError as error:
            piece.failed(error)
            raise self.log.io.refusal() from error

    def _find(self, copy: Log) -> FileSlice | None:
        """The next slice to copy."""
        log = self.log
        try:
            return log.read(
                max(copy.end_offset, log.start_offset),
                max_bytes=CHUNK_BYTES,
                end_offset=log.end_offset,
                at_least_one=True,
            )
        except (OffsetOutOfRange, LogBusy):
            return None  # truncated or deleted meanwhile; the caller checks that the copy is still valid

    def _append(self, copy: Log, batches: bytes) -> None:
        copy.high_watermark = (
            self.log.high_watermark
        )  # or the copy would keep every transaction that has ended
        now_ms = self.log.io.clock.wall_ms()
        copy.append_as_follower(memoryview(bytearray(batches)), now_ms=now_ms)

    def _drop_copy(self) -> None:
        copy, self.copy = self.copy, None
        if copy is not None:
            self.target.drop_future(copy)


def _slices(data: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of whole batches of about `SLICE_BYTES`."""
    start = position = 0
    for header in kernel.read_headers(data):
        if position > start and position + header.size_bytes - start > SLICE_BYTES:
            yield start, position
            start = position
        position += header.size_bytes
    if position > start:
        yield start, position
