"""Syncs a log to disk.

A `SyncTask` runs in a worker thread, owns everything that it needs, and does not touch the log. `Flusher` is group
commit: at most one sync of a log runs at a time, and all requests that come meanwhile share the next one. A failed sync
is never tried again (see `directory_io`): the directory goes offline, and all waiting flushes fail.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from penstock.runtime.disk import Disk, File
from penstock.runtime.workers import Lane
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.errors import StorageError

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class SyncTask:
    """The files to sync, and what is durable afterwards."""

    disk: Disk
    end_offset: int
    """Everything below it is durable when the task is done."""
    generation: int
    """Of the log when the task began; after a truncation `end_offset` means nothing any more."""
    sealed_offsets: tuple[int, ...] = ()
    """Base offsets of the segments whose indexes are among the files."""
    files: list[File]
    names: list[str] = field(default_factory=list)
    """Files that are not open. One that was deleted meanwhile needs no sync."""
    replacements: list[tuple[str, bytes]] = field(default_factory=list)
    """Small files that are replaced atomically."""
    directories: list[str] = field(default_factory=list)
    _by_name: threading.Lock = field(default_factory=threading.Lock)
    _is_abandoned: bool = False

    def run(self) -> None:
        for file in [*self.files, *self._open_named()]:
            file.sync()
        with self._by_name:
            if self._is_abandoned:
                return
            for path, data in self.replacements:
                self.disk.write_file(path, data)
            for path in self.directories:
                self.disk.sync_directory(path)

    def abandon(self) -> None:
        """Do nothing by name any more: the log's folder may be deleted, or belong to another log."""
        with self._by_name:
            self._is_abandoned = True

    def _open_named(self) -> list[File]:
        files: list[File] = []
        with self._by_name:
            for path in () if self._is_abandoned else self.names:
                with suppress(FileNotFoundError):
                    files.append(self.disk.open(path))
        return files


class Syncing(Protocol):
    recovery_point: int

    def begin_sync(self, offset: int) -> SyncTask:
        """The task that makes everything below `offset` durable, and all small files."""
        ...

    def end_sync(self, work: SyncTask) -> None:
        """`work` is done."""
        ...


class Flusher:
    __slots__ = (
        "_io",
        "_is_retired",
        "_name",
        "_syncing",
        "_waiting_next",
        "_waiting_running",
        "_wanted_offset",
        "running",
    )

    def __init__(self, syncing: Syncing, io: DirectoryIO, name: str) -> None:
        self._syncing = syncing
        self._io = io
        self._name = name
        self.running: SyncTask | None = None
        """The task that a worker runs, or will run."""
        self._is_retired = False
        self._wanted_offset = 0
        self._waiting_next: list[asyncio.Future[None]] = []
        """Callers that wait for the next sync."""
        self._waiting_running: list[asyncio.Future[None]] = []
        """Callers that wait for the running sync."""

    def request(self, offset: int) -> None:
        """Sync everything below `offset` in the background."""
        if offset > self._wanted_offset:
            self._wanted_offset = offset
        if self.running is None and not self._is_retired:
            self._start()

    async def wait(self, offset: int) -> None:
        """Request it; return when a sync that began after this call is done, or raise why it failed."""
        done = asyncio.get_running_loop().create_future()
        self._waiting_next.append(done)
        self.request(offset)
        await done

    def truncated(self, end_offset: int) -> None:
        """The log ends here now; no higher offset can be requested."""
        self._wanted_offset = min(self._wanted_offset, end_offset)

    def fail(self) -> None:
        """The directory is offline: fail all waiting callers."""
        self._fail_waiting(self._io.refusal)

    def retire(self, reason: Callable[[], StorageError]) -> None:
        """The log is deleted: ignore the running sync, and start no other."""
        self._is_retired = True
        if self.running is not None:
            self.running.abandon()
        self._fail_waiting(reason)

    def _fail_waiting(self, reason: Callable[[], StorageError]) -> None:
        waiting = self._waiting_running + self._waiting_next
        self._waiting_running, self._waiting_next = [], []
        for done in waiting:
            if not done.done():
                done.set_exception(reason())

    def _start(self) -> None:
        try:
            work = self._syncing.begin_sync(self._wanted_offset)
        except OSError as error:
            self._io.fail(error, f"flushing {self._name}")
            self.fail()
            return
        self.running = work
        self._waiting_running, self._waiting_next = self._waiting_next, []
        syncing = self._io.workers.run(work.run, lane=Lane.SYNC)
        syncing.add_done_callback(lambda future: self._finish(work, future))

    def _finish(self, work: SyncTask, future: asyncio.Future[None]) -> None:
        self.running = None
        if future.cancelled():
            return  # the event loop is being torn down
        error = future.exception()
        if self._is_retired:
            return
        if isinstance(error, Exception):
            self._io.fail(error, f"syncing {self._name}")
        if self._io.offline is not None:
            self.fail()
            return
        failure: Exception | None = None
        try:
            self._syncing.end_sync(work)
        except Exception as raised:
            # The data is durable, but a callback failed; waiting flushes must still complete.
            logger.exception("a callback after the sync of %s failed", self._name)
            failure = raised
        served, self._waiting_running = self._waiting_running, []
        for done in served:
            if not done.done():
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        if self._waiting_next or self._wanted_offset > self._syncing.recovery_point:
            self._start()
