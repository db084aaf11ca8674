"""Truncates logs and makes that durable; a truncated log refuses everything else until it is.

If anything were written before that, a crash could bring back what was cut, behind a recovery point that refers to
the new records.

After a fail-over, thousands of logs may be truncated at once. So `begin` only changes what is in memory, and
`finish_all` does the rest for many logs together, in workers: it shortens and syncs the files, and writes the
checkpoints of each log directory once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from penstock.runtime.workers import Lane
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.durability import Durability
from penstock.storage.errors import LogBusy, StorageError
from penstock.storage.log_files import LogFiles
from penstock.storage.log_state import LogState
from penstock.storage.pages import when_loaded
from penstock.storage.producer_state import ProducerState
from penstock.storage.rebuilding import rebuild_producers

logger = logging.getLogger(__name__)

LOGS_PER_JOB = 64  # one fsync each; jobs run in parallel


class TruncatableLog(LogState, Protocol):
    durability: Durability

    def move_end_back(self, end_offset: int) -> None: ...


class LogTruncation:
    __slots__ = ("_files", "_log", "_running")

    def __init__(self, log: TruncatableLog, files: LogFiles) -> None:
        self._log = log
        self._files = files
        self._running: PendingTruncation | None = None

    async def run(self, offset: int) -> None:
        """Truncate to `offset`, or to the start of the batch that holds it."""
        await self._run(lambda: self.begin(offset))

    async def run_fully(self, start_offset: int) -> None:
        """Delete everything and start again at `start_offset`."""
        await self._run(lambda: self.begin_fully(start_offset))

    async def wait(self) -> None:
        """Return when no truncation is running."""
        if self._running is not None:
            await asyncio.wait([self._running.done])

    async def _run(self, begin: Callable[[], PendingTruncation | None]) -> None:
        pending = await when_loaded(begin, self._log.io.workers)
        if pending is not None:
            finish_all([pending])
            await asyncio.shield(pending.done)  # the worker continues if the caller is cancelled

    def begin(self, offset: int) -> PendingTruncation | None:
        """Truncate to `offset` in memory. None if there was nothing to cut; may raise ColdPages."""
        log = self._log
        with log.in_service("truncating"):
            if offset >= log.end_offset:
                log.epochs.truncate_end(log.end_offset)
                return None
            if offset < log.segments[0].base_offset:
                return self.begin_fully(offset)
            slot = log.segments.slot_of(offset)
            former = log.end_offset
            end_offset = log.segments[slot].truncate(offset)
            self._files.discard(log.segments.take_after(slot), log.settings)
            log.move_end_back(end_offset)
        return self._begin(former)

    def begin_fully(self, start_offset: int) -> PendingTruncation:
        """Delete everything and start again at `start_offset`, in memory."""
        log = self._log
        former = log.end_offset
        with log.in_service("truncating"):
            self._files.restart_at(start_offset, log.settings)
            log.start_offset = start_offset
            log.epochs.clear()
            log.move_end_back(start_offset)
            log.durability.emptied()
        return self._begin(former, is_full=True)

    def begin_inside_batch(self, base_offset: int) -> PendingTruncation:
        """Replace the segment of an empty log by one that starts before it, at the first offset of a batch whose later
        records the log needs. Its offsets stay: if this is interrupted, the log is loaded as before."""
        log = self._log
        with log.in_service("truncating"):
            self._files.restart_at(base_offset, log.settings)
            log.move_end_back(log.end_offset)
            log.durability.emptied()
        return self._begin(log.end_offset, is_full=True)

    def _begin(self, former: int, *, is_full: bool = False) -> PendingTruncation:
        logger.info("truncating %s from offset %d to %d", self._log, former, self._log.end_offset)
        self._running = PendingTruncation(self._log, self._files, self._ended, is_full=is_full)
        return self._running

    def _ended(self) -> None:
        self._running = None


class PendingTruncation:
    """A truncation that is not durable yet. Its log refuses everything."""

    def __init__(
        self, log: TruncatableLog, files: LogFiles, on_ended: Callable[[], None], *, is_full: bool
    ) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the log serves again, or with the reason why it does not."""
        # The caller may have been cancelled.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._log = log
        self._files = files
        self._on_ended = on_ended
        self._is_full = is_full
        # Now, while the path is that of this log: it may be deleted, and created again, before the work begins.
        self._active = log.segments.active.file()
        self._busy = lambda: LogBusy(f"{log} is being truncated to offset {log.end_offset}")
        log.refusal = self._busy
        for segment in log.segments:
            segment.allow_blocking_reads(True)

    @property
    def io(self) -> DirectoryIO:
        return self._log.io

    @property
    def is_needed(self) -> bool:
        """Not if the log was deleted, or its directory failed, after the truncation had begun."""
        return self._log.refusal is self._busy

    def work(self) -> Callable[[], ProducerState]:
        """For a worker, which alone uses the log's files until it is done."""
        log = self._log
        disk, folder, active = log.io.disk, log.folder, self._active
        size, is_full = log.segments.active.size, self._is_full
        snapshots, segments = self._files.snapshots, list(log.segments)
        end_offset, high_watermark = log.end_offset, log.high_watermark

        def work() -> ProducerState:
            if active.size() > size:
                active.truncate(size)
            active.sync()
            if is_full:
                snapshots.remove_all()  # the log does not continue what they describe
            else:
                snapshots.remove_above(end_offset)
            disk.sync_directory(folder)
            return rebuild_producers(
                snapshots, segments, end_offset=end_offset, high_watermark=high_watermark
            )

        return work

    def finish(self, outcome: ProducerState | BaseException) -> None:
        """The work is done, and the checkpoints are written; on the event loop."""
        log = self._log
        if not self.is_needed:
            self.give_up()
            return
        self._end()
        if isinstance(outcome, BaseException):
            self._fail(log.io.fail(outcome, f"truncating {log.folder}"))
        else:
            log.producers, log.refusal = outcome, None
            if not self.done.done():
                self.done.set_result(None)

    def give_up(self) -> None:
        """The log is no longer in service, so its files are left alone."""
        assert self._log.refusal is not None
        self._end()
        self._fail(self._log.refusal())

    def _end(self) -> None:
        for segment in self._log.segments:
            segment.allow_blocking_reads(False)
        self._on_ended()

    def _fail(self, error: StorageError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


def finish_all(truncations: Sequence[PendingTruncation]) -> None:
    """Make truncations durable in workers, and let each log serve again when it is."""
    by_directory: dict[DirectoryIO, list[PendingTruncation]] = {}
    for truncation in truncations:
        if truncation.is_needed:
            by_directory.setdefault(truncation.io, []).append(truncation)
        else:
            truncation.give_up()
    for io, members in by_directory.items():
        checkpoints = io.checkpoint_writes()
        works = [truncation.work() for truncation in members]
        jobs = [
            io.workers.run(
                partial(_work_all, works[start : start + LOGS_PER_JOB], checkpoints if start == 0 else ()),
                lane=Lane.SYNC,
            )
            for start in range(0, len(works), LOGS_PER_JOB)
        ]
        for job in jobs:
            job.add_done_callback(partial(_finish, members, jobs))


def _finish(
    truncations: list[PendingTruncation],
    jobs: Sequence[asyncio.Future[list[ProducerState | Exception]]],
    _: object,
) -> None:
    """Called when a job is done; acts once, after the last."""
    if not truncations or not all(job.done() for job in jobs):
        return
    outcomes: list[ProducerState | BaseException] = []
    for start, job in enumerate(jobs):
        if job.cancelled():  # the node stops
            for truncation in truncations:
                truncation.done.cancel()
            return
        error = job.exception()
        count = min(LOGS_PER_JOB, len(truncations) - start * LOGS_PER_JOB)
        outcomes += [error] * count if error is not None else job.result()
    finished = truncations.copy()
    truncations.clear()
    for truncation, outcome in zip(finished, outcomes, strict=True):
        truncation.finish(outcome)


def _work_all(
    works: Sequence[Callable[[], ProducerState]], checkpoints: Sequence[Callable[[], None]]
) -> list[ProducerState | Exception]:
    """One failing log must not fail the others."""
    outcomes: list[ProducerState | Exception] = []
    for work in works:
        try:
            outcomes.append(work())
        except Exception as error:
            outcomes.append(error)
    for write in checkpoints:
        write()
    return outcomes
