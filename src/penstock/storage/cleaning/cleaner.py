"""Compacts logs in the background, the dirtiest first (`log.cleaner.*`).

`LogCleaner` chooses a log, and `run.CompactionRun` compacts it.

If a log cannot be compacted, for example because a batch is damaged, it is logged and not tried again before a restart.
If the disk is full, or the log was truncated or moved meanwhile, its compaction is tried again later. Other logs
continue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from penstock.records.errors import RecordsError
from penstock.runtime.clock import Clock
from penstock.runtime.workers import CLEANING_THREADS_MAX, Workers
from penstock.storage.cleaning.eligibility import Cleanable, find_cleanable
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import LogBusy, StorageError
from penstock.storage.log import Log
from penstock.storage.pages import when_loaded
from penstock.storage.settings import CleanerSettings
from penstock.storage.throttle import Throttle

logger = logging.getLogger(__name__)

LOGS_PER_TURN = 32  # examined per turn of the event loop


class _Candidate(NamedTuple):
    log: Log
    directory: LogDirectory
    cleanable: Cleanable


class LogCleaner:
    def __init__(
        self,
        directories: Iterable[LogDirectory],
        *,
        workers: Workers,
        clock: Clock,
        settings: Callable[[], CleanerSettings],
        is_moving: Callable[[Log], bool] = lambda log: False,
        start_another: Callable[[int], None] = lambda number: None,
    ) -> None:
        """`is_moving` tells whether a log is being copied to another directory. A copy of a log that is compacted
        meanwhile could have a record without the tombstone that deletes it. `start_another` runs the cleaner with this
        number, too."""
        self._directories = list(directories)
        self._workers = workers
        self._clock = clock
        self._settings = settings
        self._is_moving = is_moving
        self._start_another = start_another
        self._started = 1
        self._throttle: Throttle | None = None
        self._busy: set[Log] = set()
        self._postponed: dict[Log, float] = {}
        """Logs whose compaction was given up, and when it is tried again, in the time of the event loop."""
        self.uncleanable: set[Log] = set()
        """Logs whose compaction failed."""

    async def run(self, number: int) -> None:
        """Compact logs until cancelled, as one of several cleaners. Those beyond `log.cleaner.threads` are idle."""
        while True:
            thread_count = min(self._settings().thread_count, CLEANING_THREADS_MAX)
            while number == 0 and self._started < thread_count:
                self._started += 1
                self._start_another(self._started - 1)
            is_idle = number >= thread_count
            if is_idle or not await self.clean_one():
                await asyncio.sleep(self._backoff_s())

    async def clean_one(self) -> bool:
        """Compact the log with the largest share of dirty bytes; whether there was one."""
        candidate = await self._choose()
        if candidate is None:
            return False
        log = candidate.log
        if log in self._busy:
            return True  # another cleaner has chosen it meanwhile
        self._busy.add(log)
        try:
            await self._clean(candidate)
        finally:
            self._busy.discard(log)
        return True

    async def _choose(self) -> _Candidate | None:
        best: _Candidate | None = None
        self._forget_outdated()
        for directory in self._directories:
            if not directory.is_online:
                continue
            for count, log in enumerate(list(directory.logs.values())):
                if count % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                    await asyncio.sleep(0)
                if not self._may_clean(log) or log in self.uncleanable or log in self._postponed:
                    continue
                candidate = await self._examine(log, directory)
                if candidate is not None and (best is None or _urgency(candidate) > _urgency(best)):
                    best = candidate
        return best

    def _may_clean(self, log: Log) -> bool:
        return (
            log.is_configured and log.settings.compact and log not in self._busy and not self._is_moving(log)
        )

    def _forget_outdated(self) -> None:
        now = asyncio.get_running_loop().time()
        self._postponed = {log: until for log, until in self._postponed.items() if until > now}
        if self.uncleanable:
            present = {log for directory in self._directories for log in directory.logs.values()}
            self.uncleanable &= present

    async def _examine(self, log: Log, directory: LogDirectory) -> _Candidate | None:
        """The log, if it should be compacted."""

        def find() -> Cleanable | None:
            with log.in_service("reading"):
                return find_cleanable(
                    log, cleaned_offset=directory.cleaned_offset(log), now_ms=self._clock.wall_ms()
                )

        try:
            cleanable = await when_loaded(find, self._workers)
        except StorageError:
            return None  # deleted, truncated or offline, which is already logged
        if cleanable is None:
            return None
        if cleanable.is_overdue or cleanable.dirty_ratio > log.settings.min_cleanable_dirty_ratio:
            return _Candidate(log, directory, cleanable)
        return None

    async def _clean(self, candidate: _Candidate) -> None:
        # Imported with the first compaction, so that a node starts without it.
        from penstock.storage.cleaning.run import CompactionRun

        log, directory, _ = candidate
        began_ms = self._clock.wall_ms()
        settings = self._settings()
        run = CompactionRun(
            log,
            directory,
            workers=self._workers,
            throttle=self._rate(),
            map_bytes=settings.map_bytes // max(1, settings.thread_count),
            now_ms=began_ms,
            is_moving=self._is_moving,
        )
        try:
            cleaned_offset, statistics = await run.run()
        except Exception as error:
            self._report(log, error)
            with suppress(StorageError):  # the directory is offline, which is logged
                await run.remove_leftovers()
            return
        logger.info(
            "compacted %s up to offset %d: %d to %d bytes, %d to %d records, in %d ms",
            log, cleaned_offset, statistics.read_bytes, statistics.written_bytes,
            statistics.read_records, statistics.retained_records, self._clock.wall_ms() - began_ms,
        )  # fmt: skip

    def _report(self, log: Log, error: Exception) -> None:
        """Log why a compaction failed, and decide whether it is tried again."""
        if isinstance(error, LogBusy) or log.refusal is not None:
            logger.info("the compaction of %s was given up: %s", log, error)
            self._postponed[log] = asyncio.get_running_loop().time() + self._backoff_s()
            return
        self.uncleanable.add(log)
        if isinstance(error, (StorageError, RecordsError)):
            logger.error("%s cannot be compacted, and is not tried again before a restart: %s", log, error)
        else:
            logger.error("compacting %s failed; it is not tried again before a restart", log, exc_info=error)

    def _backoff_s(self) -> float:
        return max(1, self._settings().backoff_ms) / 1000

    def _rate(self) -> Throttle:
        """One for all cleaners, created with the first compaction: before, there may be no event loop."""
        if self._throttle is None:
            self._throttle = Throttle(self._bytes_per_second, asyncio.get_running_loop().time)
        return self._throttle

    def _bytes_per_second(self) -> int:
        return int(min(self._settings().bytes_per_second, 2**62))


def _urgency(candidate: _Candidate) -> tuple[bool, float]:
    return candidate.cleanable.is_overdue, candidate.cleanable.dirty_ratio
