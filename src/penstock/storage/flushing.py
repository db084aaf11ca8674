"""The way of a log's bytes to where a power cut does not reach them.

`SyncWork` is one trip: it runs in a worker thread, owns all that it needs, and touches nothing of the log.
`Flusher` is group commit: at most one trip at a time for a log, and everybody who asks meanwhile shares the
next one. A sync that failed is never tried again (see `volume`): the directory goes offline, and all who wait
are told.
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
from penstock.storage.errors import StorageError
from penstock.storage.volume import Volume

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class SyncWork:
    disk: Disk
    end_offset: int
    """Everything below it is durable when the work is done."""
    generation: int
    """Of the log when the work began; a truncation since then means that `end_offset` says nothing any more.
    """
    sealed_offsets: tuple[int, ...] = ()
    """Where segments begin whose indexes are among the files."""
    files: list[File]
    names: list[str] = field(default_factory=list)
    """Files that nobody holds open. One that is gone by now needs no sync."""
    replacements: list[tuple[str, bytes]] = field(default_factory=list)
    """Small files of which the old or the new version must always be there."""
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
        """After this nothing is done by name: the log's folder may be gone, or belong to another log."""
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

    def begin_sync(self, offset: int) -> SyncWork:
        """Gather what makes everything below `offset` durable, and all small files."""
        ...

    def end_sync(self, work: SyncWork) -> None:
        """Note that `work` is done."""
        ...


class Flusher:
    __slots__ = (
        "_arrived",
        "_is_retired",
        "_name",
        "_served",
        "_syncing",
        "_volume",
        "_wanted_offset",
        "under_way",
    )

    def __init__(self, syncing: Syncing, volume: Volume, name: str) -> None:
        self._syncing = syncing
        self._volume = volume
        self._name = name
        self.under_way: SyncWork | None = None
        """The trip that a worker is on, or will set out on."""
        self._is_retired = False
        self._wanted_offset = 0
        self._arrived: list[asyncio.Future[None]] = []
        """Those who wait for the next trip."""
        self._served: list[asyncio.Future[None]] = []
        """Those whom the trip under way serves."""

    def request(self, offset: int) -> None:
        """See to it that everything below `offset` becomes durable."""
        if offset > self._wanted_offset:
            self._wanted_offset = offset
        if self.under_way is None and not self._is_retired:
            self._start()

    async def wait(self, offset: int) -> None:
        """Request it, and return when a trip that began after this call is done, or raise why it failed."""
        done = asyncio.get_running_loop().create_future()
        self._arrived.append(done)
        self.request(offset)
        await done

    def truncated(self, end_offset: int) -> None:
        """The log ends here now; nothing above can be wanted."""
        self._wanted_offset = min(self._wanted_offset, end_offset)

    def fail(self) -> None:
        """Tell all who wait that the directory is offline."""
        self._tell(self._volume.refusal)

    def retire(self, reason: Callable[[], StorageError]) -> None:
        """The log is deleted: whatever is under way matters to nobody any more, and nothing follows it."""
        self._is_retired = True
        if self.under_way is not None:
            self.under_way.abandon()
        self._tell(reason)

    def _tell(self, reason: Callable[[], StorageError]) -> None:
        waiting = self._served + self._arrived
        self._served, self._arrived = [], []
        for done in waiting:
            if not done.done():
                done.set_exception(reason())

    def _start(self) -> None:
        try:
            work = self._syncing.begin_sync(self._wanted_offset)
        except OSError as error:
            self._volume.fail(error, f"flushing {self._name}")
            self.fail()
            return
        self.under_way = work
        self._served, self._arrived = self._arrived, []
        syncing = self._volume.workers.run(work.run, lane=Lane.SYNC)
        syncing.add_done_callback(lambda future: self._finish(work, future))

    def _finish(self, work: SyncWork, future: asyncio.Future[None]) -> None:
        self.under_way = None
        if future.cancelled():
            return  # the event loop is being torn down
        error = future.exception()
        if self._is_retired:
            return
        if isinstance(error, Exception):
            self._volume.fail(error, f"syncing {self._name}")
        if self._volume.offline is not None:
            self.fail()
            return
        failure: Exception | None = None
        try:
            self._syncing.end_sync(work)
        except Exception as raised:
            # The bytes are safe, but a callback failed; waiting flushes must still complete.
            logger.exception("noting the sync of %s failed", self._name)
            failure = raised
        served, self._served = self._served, []
        for done in served:
            if not done.done():
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        if self._arrived or self._wanted_offset > self._syncing.recovery_point:
            self._start()
