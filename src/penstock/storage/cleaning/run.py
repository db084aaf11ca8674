"""Runs one `Compaction`: plans it on the event loop, and runs its steps in workers, one after the other.

Between two steps it waits as long as `log.cleaner.io.max.bytes.per.second` demands, and puts finished segments in
place. So a compaction stops between two steps when the node stops.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.records.errors import RecordsError
from penstock.runtime.workers import Lane, Workers
from penstock.storage.cleaning.compaction import Compaction, Plan, Source, Statistics, Written
from penstock.storage.cleaning.eligibility import Cleanable, find_cleanable
from penstock.storage.cleaning.transactions import LastBatch
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import LogBusy, StorageError
from penstock.storage.folder_use import FolderUse
from penstock.storage.log import Log
from penstock.storage.pages import when_loaded
from penstock.storage.segment import Segment
from penstock.storage.throttle import Throttle
from penstock.storage.transactions.aborted import AbortedTxn

logger = logging.getLogger(__name__)

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Result(NamedTuple):
    cleaned_offset: int
    statistics: Statistics


class CompactionRun:
    """One compaction of one log. It raises StorageError or RecordsError if it cannot be completed."""

    def __init__(
        self,
        log: Log,
        directory: LogDirectory,
        *,
        workers: Workers,
        throttle: Throttle,
        map_bytes: int,
        now_ms: int,
        is_moving: Callable[[Log], bool],
    ) -> None:
        self._log = log
        self._directory = directory
        self._workers = workers
        self._throttle = throttle
        self._map_bytes = map_bytes
        self._now_ms = now_ms
        self._is_moving = is_moving
        self._compaction: Compaction | None = None
        self._generation = log.durability.generation

    async def run(self) -> Result:
        log, directory = self._log, self._directory
        for segment in [each for each in log.segments if not each.is_in_place]:
            await self._finish(segment)
        # All decisions about the log are made in the one step that also begins the compaction.
        compaction = self._compaction = await when_loaded(self._begin, self._workers)
        try:
            # After a crash, recovery must not begin where compaction leaves gaps: they look like lost records.
            await directory.checkpoint_recovery_points()
            await self._run_steps(compaction)
            await directory.checkpoint_cleaned_offset(log, compaction.cleaned_offset)
        except (StorageError, RecordsError):
            self._check()  # it may have read what a truncation has cut
            raise
        self._leave_folder(compaction)
        return Result(compaction.cleaned_offset, compaction.statistics)

    async def remove_leftovers(self) -> None:
        """After a failure."""
        compaction = self._compaction
        if compaction is None or not self._directory.is_online:
            return
        try:
            await self._workers.run(compaction.remove_leftovers, lane=Lane.CLEANING)
        except OSError as error:
            raise self._log.io.fail(error, f"compacting {self._log}") from error
        self._leave_folder(compaction)

    def _leave_folder(self, compaction: Compaction) -> None:
        if self._log.folder_use is compaction.folder_use:
            self._log.folder_use = None

    def _begin(self) -> Compaction:
        """May raise ColdPages."""
        log = self._log
        with log.in_service("reading"):
            self._generation = log.durability.generation
            self._check()
            cleanable = find_cleanable(
                log, cleaned_offset=self._directory.cleaned_offset(log), now_ms=self._now_ms
            )
            if cleanable is None:
                raise LogBusy(f"{log} has no records to compact any more")
            plan = self._plan(cleanable)
        log.folder_use = FolderUse(str(log))
        return Compaction(log.io.disk, plan, log.folder_use)

    def _plan(self, cleanable: Cleanable) -> Plan:
        """May raise ColdPages."""
        log = self._log
        segments, settings, end_offset = log.segments, log.settings, cleanable.end_offset
        sources = [
            Source(
                segment,
                segment.base_offset,
                segments.end_of(slot, log_end_offset=log.end_offset),
                segment.size,
                log.folder,
            )
            for slot, segment in enumerate(segments)
            if segment.base_offset < end_offset
        ]
        assert sources[-1].segment is not segments.active, "it is written to"
        later_aborted = [
            AbortedTxn(found.producer_id, found.first_offset, end_offset, end_offset)
            for found in log.reader.aborted_transactions(end_offset, end_offset)
            if found.first_offset < end_offset
        ]
        return Plan(
            name=str(log),
            folder=log.folder,
            sources=sources,
            first_dirty_offset=cleanable.first_dirty_offset,
            later_aborted=later_aborted,
            last_batches={
                producer.producer_id: LastBatch(
                    producer.epoch, producer.batches[-1].last_offset if producer.batches else None
                )
                for producer in log.producers
            },
            segment_bytes=settings.segment_bytes,
            segment_index_bytes=settings.segment_index_bytes,
            index_interval_bytes=settings.index_interval_bytes,
            delete_retention_ms=settings.delete_retention_ms,
            now_ms=self._now_ms,
            map_bytes=self._map_bytes,
            hash_key=log.io.random.randbytes(16),
        )

    def _check(self) -> None:
        """Before every step: LogBusy if the log must not be compacted any more."""
        log = self._log
        if log.refusal is not None:
            raise log.refusal()
        if not self._directory.holds(log) or self._is_moving(log):
            raise LogBusy(f"{log} was moved to another directory, or will be")
        if log.durability.generation != self._generation:
            raise LogBusy(f"{log} was truncated meanwhile")
        if not log.settings.compact:
            raise LogBusy(f"the cleanup.policy of {log} does not include compact any more")

    async def _run_steps(self, compaction: Compaction) -> None:
        log = self._log
        steps = compaction.steps()
        while True:
            self._check()
            try:
                step = await self._workers.run(partial(next, steps, None), lane=Lane.CLEANING)
            except FileNotFoundError as error:
                raise LogBusy(f"{error.filename} was deleted meanwhile") from error
            except OSError as error:
                if error.errno in DISK_FULL:
                    logger.warning(
                        "the compaction of %s is put off, because the disk is full: %s", log, error
                    )
                    raise LogBusy(str(error)) from error
                raise log.io.fail(error, f"compacting {log.folder}") from error
            self._check()
            if step is None:
                return
            if isinstance(step, Written):
                segment = log.replacement.begin(step.replaced, step.cleaned)
                compaction.placed()
                await self._finish(segment)
            else:
                await self._throttle.take(step)

    async def _finish(self, segment: Segment) -> None:
        """Give the files of a segment, which the log already uses, their names."""
        log, folder = self._log, self._log.folder
        try:
            await self._workers.run(lambda: log.io.disk.sync_directory(folder), lane=Lane.CLEANING)
        except FileNotFoundError as error:
            raise LogBusy(f"{log} was deleted or moved") from error
        except OSError as error:
            raise log.io.fail(error, f"compacting {folder}") from error
        await log.truncation.wait()
        log.replacement.finish(segment)
