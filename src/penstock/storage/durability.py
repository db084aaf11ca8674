"""Which part of a log is durable (survives a power cut), which is not yet, and when to sync.

`recovery_point` is the end of the durable records. `scan_offset`, which the checkpoint keeps for the next start, is
where recovery has to begin: at the first segment that is not durable as a whole, index included. `end_offset` is where
acknowledgements and readers must stop: the log end offset, unless `flush.messages` makes an append wait for the disk. A
truncation begins a new generation: a sync that was running then says nothing about offsets that are written again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from penstock.runtime.disk import File
from penstock.storage.checkpoints import encode_epochs
from penstock.storage.errors import StorageError
from penstock.storage.flushing import Flusher, SyncTask
from penstock.storage.layout import LEADER_EPOCHS, LOG_SUFFIX
from penstock.storage.log_state import LogState
from penstock.storage.settings import NEVER


class Durability:
    __slots__ = (
        "_flusher",
        "_held_until_offset",
        "_is_folder_new",
        "_log",
        "_sealed_offsets",
        "_timer",
        "_unsynced",
        "_unsynced_names",
        "end_offset",
        "generation",
        "is_folder_changed",
        "on_advance",
        "recovery_point",
    )

    def __init__(
        self, log: LogState, *, recovery_point: int, unsynced_names: list[str], is_folder_synced: bool
    ) -> None:
        self._log = log
        self.recovery_point = recovery_point
        self.end_offset = log.end_offset
        self.on_advance: Callable[[], None] | None = None
        """Called after a sync moved `end_offset`, or when the directory went offline."""
        self.is_folder_changed = not is_folder_synced
        self._is_folder_new = not is_folder_synced
        self._sealed_offsets: list[int] = []
        """Base offsets of sealed segments whose indexes are not synced yet."""
        self._unsynced: list[File] = []
        self._unsynced_names = unsynced_names
        """Files in the log's folder. By name, because an idle log may wait long for its first sync, and there may be
        more such logs than file descriptors."""
        self.generation = 0
        """Grows with every truncation."""
        self._held_until_offset = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flusher = Flusher(self, log.io, log.folder)

    @property
    def scan_offset(self) -> int:
        """Where recovery must begin after a crash: below it, records and indexes are durable.

        Not past the start of an active segment whose index is in memory, even if all its records are durable: it may be
        sealed at any moment, and the checkpoint would then cover index files that were written later.
        """
        active = self._log.segments.active
        live_offsets = [active.base_offset] if active.index is not None else []
        return min([self.recovery_point, *self._sealed_offsets, *live_offsets])

    def add_sealed_segment(self, base_offset: int, files: Sequence[File]) -> None:
        """The next sync must cover `files`, the indexes of a segment that was just sealed."""
        self._sealed_offsets.append(base_offset)
        self.add_unsynced(*files)

    def add_unsynced(self, *files: File) -> None:
        """The next sync must cover these files and their names."""
        self._unsynced += files
        self.is_folder_changed = self.is_folder_changed or bool(files)

    def request(self, offset: int) -> None:
        """Sync everything below `offset` in the background."""
        self._flusher.request(offset)

    async def flush(self) -> None:
        """Return when everything is durable. One sync serves all waiting callers."""
        log = self._log
        is_behind = self.recovery_point < log.end_offset or log.epochs.is_dirty
        if is_behind or self._unsynced or self.is_folder_changed:
            await self._flusher.wait(log.end_offset)

    def appended(self) -> None:
        """Apply `flush.messages` and `flush.ms` after an append."""
        log, settings = self._log, self._log.settings
        if log.end_offset - self.recovery_point >= settings.flush_messages:
            self._held_until_offset = log.end_offset
            self._flusher.request(log.end_offset)
        elif self.recovery_point >= self._held_until_offset:
            self.end_offset = log.end_offset
        if settings.flush_ms != NEVER and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                settings.flush_ms / 1000, self._flush_interval_passed
            )

    def recovered(self) -> None:
        """After a crash the log may not be durable, so readers wait as for an append, unless `apply_flush_policy` finds
        that they need not.
        """
        self._held_until_offset = self._log.end_offset
        self.end_offset = min(self.end_offset, self.recovery_point)
        self._flusher.request(self._log.end_offset)

    def apply_flush_policy(self) -> None:
        """The topic's settings, which were not known when the log was loaded, are in `settings` now."""
        if self._log.end_offset - self.recovery_point < self._log.settings.flush_messages:
            self._held_until_offset = 0
            self.end_offset = self._log.end_offset

    def truncated(self) -> None:
        end_offset = self._log.end_offset
        self.generation += 1
        self._flusher.truncated(end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.end_offset = min(self.end_offset, end_offset)
        self._held_until_offset = min(self._held_until_offset, end_offset)

    def emptied(self) -> None:
        """After `truncated`: the log has nothing that could be synced."""
        self.recovery_point = self.end_offset = self._held_until_offset = self._log.end_offset

    def stop(self) -> None:
        """No more syncs by `flush.ms`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def retire(self, reason: Callable[[], StorageError]) -> None:
        """The log is deleted: no more syncs at all."""
        self.stop()
        self._unsynced.clear()
        self._flusher.retire(reason)

    def fail(self) -> None:
        """The directory is offline: fail all waiting flushes."""
        self.stop()
        self._flusher.fail()
        if self.on_advance is not None:
            self.on_advance()

    def sync_now(self) -> None:
        """Sync everything on the event loop, including the files that a worker has been given but may not have synced
        yet."""
        with self._log.in_service("syncing"):
            work = self.begin_sync(self._log.end_offset)
            if self._flusher.running is not None:
                self._flusher.running.run()
            work.run()
            self.end_sync(work)

    def begin_sync(self, offset: int) -> SyncTask:
        """For `Flusher`: the task that makes everything below `offset` durable, and all unsynced files."""
        log = self._log
        active = log.segments.active
        files, self._unsynced = self._unsynced, []
        names, self._unsynced_names = self._unsynced_names, []
        end_offset = active.base_offset
        if offset > end_offset:
            end_offset = log.end_offset
            if active.has_open_file:
                files.append(active.file())
            else:
                names.append(os.path.basename(active.path(LOG_SUFFIX)))
        work = SyncTask(
            disk=log.io.disk,
            end_offset=end_offset,
            generation=self.generation,
            sealed_offsets=tuple(self._sealed_offsets),
            files=files,
            names=[os.path.join(log.folder, name) for name in names],
        )
        if log.epochs.is_dirty:
            log.epochs.is_dirty = False
            path = os.path.join(log.folder, LEADER_EPOCHS)
            work.replacements.append((path, encode_epochs(log.epochs.entries())))
        if self.is_folder_changed:
            self.is_folder_changed = False
            work.directories.append(log.folder)
        if self._is_folder_new:
            self._is_folder_new = False
            work.directories.append(log.io.path)
        return work

    def end_sync(self, work: SyncTask) -> None:
        """For `Flusher`: `work` is done."""
        if work.generation == self.generation:
            self.recovery_point = max(self.recovery_point, work.end_offset)
            self._sealed_offsets = [at for at in self._sealed_offsets if at not in work.sealed_offsets]
        if self.recovery_point >= self._held_until_offset:
            end_offset = self._log.end_offset
        else:
            end_offset = max(self.end_offset, self.recovery_point)
        if end_offset > self.end_offset:
            self.end_offset = end_offset
            if self.on_advance is not None:
                self.on_advance()

    def _flush_interval_passed(self) -> None:
        self._timer = None
        if self._log.io.offline is None and self.recovery_point < self._log.end_offset:
            self._flusher.request(self._log.end_offset)
