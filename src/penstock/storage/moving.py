"""Moving a log to another directory of the same node while it serves (AlterReplicaLogDirs).

A copy grows beside the original, in a folder whose name ends in `-future`, until it has everything and all of
it is synced. Then, in one step of the event loop, the log goes on in the copy's files: whoever holds the
`Log` notices nothing. A move that is not finished when the node stops is forgotten, and its copy is removed
by the next start.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.records import kernel
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import DirectoryOffline, LogClosed, OffsetOutOfRange
from penstock.storage.log import Log

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20  # copied in one step of the event loop: about a millisecond
# After so many flushes that did not catch up with the writers, the last bytes are synced on the loop.
ROUNDS_MAX = 8


class Move:
    """One log on its way from one directory to another."""

    def __init__(self, log: Log, source: LogDirectory, target: LogDirectory) -> None:
        self.log = log
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
                    self._copy_chunk(copy)
                copy.sync_now()
            if self._is_valid(copy) and copy.recovery_point == copy.end_offset == log.end_offset:
                break
        copy.advance_start(log.start_offset)
        self._source.hand_over(log, copy, self.target)
        self.copy = None
        logger.info("%s was moved from %s to %s", log, self._source.path, self.target.path)

    async def _catch_up(self) -> Log:
        """A copy that has what the log has; begun anew where truncation or retention made it worthless."""
        log = self.log
        while True:
            if self.copy is None or not self._is_valid(self.copy):
                self._drop_copy()
                self.copy = self._begin()
            self._copy_chunk(self.copy)
            if self.copy.end_offset == log.end_offset:
                return self.copy
            await asyncio.sleep(0)

    def _begin(self) -> Log:
        log = self.log
        self._generation = log.generation
        start_offset = log.start_offset
        first = log.read(start_offset, max_bytes=1, end_offset=log.end_offset, at_least_one=True)
        if first is not None:
            start_offset = kernel.read_header(first.read(), 0).base_offset
        return self.target.create_future(log, start_offset=start_offset)

    def _is_valid(self, copy: Log) -> bool:
        return self.log.generation == self._generation and self.log.start_offset <= copy.end_offset

    def _copy_chunk(self, copy: Log) -> None:
        log = self.log
        try:
            found = log.read(
                max(copy.end_offset, log.start_offset),
                max_bytes=CHUNK_BYTES,
                end_offset=log.end_offset,
                at_least_one=True,
            )
        except OffsetOutOfRange:
            return  # truncated or trimmed meanwhile; the caller sees that the copy is no longer valid
        if found is not None:
            copy.high_watermark = log.high_watermark  # or it would remember every transaction that has ended
            batches = bytearray(found.read())
            copy.append_as_follower(memoryview(batches), now_ms=log.volume.clock.wall_ms())

    def _drop_copy(self) -> None:
        copy, self.copy = self.copy, None
        if copy is not None:
            self.target.drop_future(copy)
