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
# After so many flushes that did not catch up with the writers, the last bytes are copied and synced on the loop, unless
# they are more than CHUNK_BYTES.
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
        """Return when it is done or cancelled."""
        await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Cancel the move and remove the copy."""
        self._task.cancel()
        self._drop_copy()

    async def _run(self) -> None:
        try:
            await self._copy_and_swap()
        except (DirectoryOffline, LogClosed) as error:
            logger.warning("the move of %s to %s was cancelled: %s", self.log, self.target.path, error)
            self._drop_copy()
        except Exception:
            # The log stays in the directory that it is in, and a move can be requested again.
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
                copy.sync_now()
            if self._is_valid(copy) and copy.recovery_point == copy.end_offset == log.end_offset:
                break
        copy.advance_start(log.start_offset)
        self._swap(copy)

    def _swap(self, copy: Log) -> None:
        """Let the log go on in the files of the copy, and delete those that it had.

        The copy gets its name first, and durably: a crash in between leaves two logs, which is seen, and never none.
        """
        log, old_folder = self.log, self.log.folder
        self.target.adopt(log, copy)
        self.copy = None
        logger.info("%s was moved from %s to %s", log, self._source.path, self.target.path)
        with suppress(DirectoryOffline):  # the source failed, which is logged; the log is not there any more
            self._source.moved_away(log, old_folder)

    async def _catch_up(self) -> Log:
        """A copy that has what the log had a moment ago; restarted if truncation or retention made it invalid."""
        log = self.log
        while True:
            await log.when_settled()
            if self.copy is None or not self._is_valid(self.copy):
                self._drop_copy()
                try:
                    self.copy = await when_loaded(self._begin, log.volume.workers)
                except LogBusy:
                    continue  # a truncation began while pages were loaded
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
            with self._reading(first):
                header = kernel.read_header(read_cached(first), 0)
            start_offset = header.base_offset
        return self.target.create_future(log, start_offset=start_offset)

    def _is_valid(self, copy: Log) -> bool:
        return self.log.generation == self._generation and self.log.start_offset <= copy.end_offset

    def _lacks_little(self, copy: Log) -> bool:
        """Whether one turn of the event loop is enough to copy what was written since the last chunk was read.

        It is not if many bytes came while that chunk waited for the throttle."""
        log = self.log
        if copy.end_offset >= log.end_offset:
            return True
        return waiting_for_disk(lambda: log.size_from(copy.end_offset)) <= CHUNK_BYTES

    async def _copy_chunk(self, copy: Log) -> None:
        """Copy what a worker reads at once."""
        workers = self.log.volume.workers
        found = await when_loaded(lambda: self._find(copy), workers)
        if found is None:
            return
        await self._throttle.take(found.size)
        with self._reading(found):
            data = await workers.run(found.read, lane=Lane.BACKGROUND)
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
            raise self.log.volume.refusal() from error

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
        except (OffsetOutOfRange, LogBusy):
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
