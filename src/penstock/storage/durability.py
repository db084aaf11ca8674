"""How much of a log is safe from a power cut, what is not yet, and when that has to change.

`recovery_point` is the end of the records that are safe. `scan_offset`, which the checkpoint keeps for the next
start, is where a scan has to begin: at the first segment that is not safe as a whole, its index included.
`end_offset` is where acknowledgements and readers must stop: the log's end, unless `flush.messages` makes an
append wait for the disk, and then not past what waits. A truncation begins a new generation: a sync that was
under way says nothing about offsets that are written anew.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.runtime.disk import File
from penstock.storage.checkpoints import encode_epochs
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.errors import StorageError
from penstock.storage.flushing import Flusher, SyncWork
from penstock.storage.layout import LEADER_EPOCHS, LOG_SUFFIX
from penstock.storage.segment import Segment
from penstock.storage.settings import NEVER, LogSettings
from penstock.storage.volume import Volume


class Tail(Protocol):
    """What has to be known of a log: where it ends, in which segment, and what stands beside it."""

    volume: Volume
    folder: str
    end_offset: int
    epochs: LeaderEpochs
    settings: LogSettings

    @property
    def active_segment(self) -> Segment: ...


class Durability:
    __slots__ = (
        "_flusher",
        "_held_until_offset",
        "_is_folder_new",
        "_sealed_offsets",
        "_tail",
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
        self, tail: Tail, *, recovery_point: int, unsynced_names: list[str], is_folder_synced: bool
    ) -> None:
        self._tail = tail
        self.recovery_point = recovery_point
        self.end_offset = tail.end_offset
        self.on_advance: Callable[[], None] | None = None
        """Called after `end_offset` moved by a sync, or when it never will because the directory is offline.
        """
        self.is_folder_changed = not is_folder_synced
        self._is_folder_new = not is_folder_synced
        self._sealed_offsets: list[int] = []
        """Where segments begin that were sealed, and whose indexes no sync has covered yet."""
        self._unsynced: list[File] = []
        self._unsynced_names = unsynced_names
        """Of files in the log's folder. By name, because a log that nobody writes to owes its first sync for long,
        and there are more such logs than descriptors."""
        self.generation = 0
        """Grows with every truncation."""
        self._held_until_offset = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flusher = Flusher(self, tail.volume, tail.folder)

    @property
    def scan_offset(self) -> int:
        """Where a scan must begin after a crash: below it not only records are safe, but indexes too.

        While the active segment has its index in memory, that is not past its start, even where all its records are
        safe: it may be sealed at any moment, and a checkpoint that names its end would then vouch for index
        files that were written later.
        """
        active = self._tail.active_segment
        live_offsets = [active.base_offset] if active.index is not None else []
        return min([self.recovery_point, *self._sealed_offsets, *live_offsets])

    def sealed(self, base_offset: int, files: Sequence[File]) -> None:
        """The segment that begins at `base_offset` is sealed; the next sync must cover these files."""
        self._sealed_offsets.append(base_offset)
        self.owe(*files)

    def owe(self, *files: File) -> None:
        """The next sync must cover these files and their names, whatever else it covers."""
        self._unsynced += files
        self.is_folder_changed = self.is_folder_changed or bool(files)

    def request(self, offset: int) -> None:
        """See to it that everything below `offset` becomes safe; nobody waits for it."""
        self._flusher.request(offset)

    async def flush(self) -> None:
        """Return when all that is there now is safe. One sync serves all who wait."""
        tail = self._tail
        is_behind = self.recovery_point < tail.end_offset or tail.epochs.is_dirty
        if is_behind or self._unsynced or self.is_folder_changed:
            await self._flusher.wait(tail.end_offset)

    def appended(self) -> None:
        """Apply `flush.messages` and `flush.ms` to an append that was just made."""
        tail, settings = self._tail, self._tail.settings
        if tail.end_offset - self.recovery_point >= settings.flush_messages:
            self._held_until_offset = tail.end_offset
            self._flusher.request(tail.end_offset)
        elif self.recovery_point >= self._held_until_offset:
            self.end_offset = tail.end_offset
        if settings.flush_ms != NEVER and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(settings.flush_ms / 1000, self._time_is_up)

    def recovered(self) -> None:
        """The log came back from a crash: what it holds may not be safe yet, so it waits like an append, unless
        `policy_known` says that it need not.
        """
        self._held_until_offset = self._tail.end_offset
        self.end_offset = min(self.end_offset, self.recovery_point)
        self._flusher.request(self._tail.end_offset)

    def policy_known(self) -> None:
        """The log was loaded before anybody knew its topic's settings; these are they."""
        if self._tail.end_offset - self.recovery_point < self._tail.settings.flush_messages:
            self._held_until_offset = 0
            self.end_offset = self._tail.end_offset

    def truncated(self) -> None:
        end_offset = self._tail.end_offset
        self.generation += 1
        self._flusher.truncated(end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.end_offset = min(self.end_offset, end_offset)
        self._held_until_offset = min(self._held_until_offset, end_offset)

    def stop(self) -> None:
        """No more syncs by time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def retire(self, reason: Callable[[], StorageError]) -> None:
        """The log is deleted: no more syncs at all."""
        self.stop()
        self._unsynced.clear()
        self._flusher.retire(reason)

    def fail(self) -> None:
        """The directory is offline: tell all who wait."""
        self.stop()
        self._flusher.fail()
        if self.on_advance is not None:
            self.on_advance()

    def sync_now(self) -> None:
        """Make all that is there safe before returning, what was handed to a worker included: nobody knows when that
        one gets round to it."""
        work = self.begin_sync(self._tail.end_offset)
        if self._flusher.under_way is not None:
            self._flusher.under_way.run()
        work.run()
        self.end_sync(work)

    def begin_sync(self, offset: int) -> SyncWork:
        """For `Flusher`: hand over what makes everything below `offset` safe, and all that is owed."""
        tail = self._tail
        active = tail.active_segment
        files, self._unsynced = self._unsynced, []
        names, self._unsynced_names = self._unsynced_names, []
        end_offset = active.base_offset
        if offset > end_offset:
            end_offset = tail.end_offset
            if active.has_open_file:
                files.append(active.file())
            else:
                names.append(os.path.basename(active.path(LOG_SUFFIX)))
        work = SyncWork(
            disk=tail.volume.disk,
            end_offset=end_offset,
            generation=self.generation,
            sealed_offsets=tuple(self._sealed_offsets),
            files=files,
            names=[os.path.join(tail.folder, name) for name in names],
        )
        if tail.epochs.is_dirty:
            tail.epochs.is_dirty = False
            path = os.path.join(tail.folder, LEADER_EPOCHS)
            work.replacements.append((path, encode_epochs(tail.epochs.entries())))
        if self.is_folder_changed:
            self.is_folder_changed = False
            work.directories.append(tail.folder)
        if self._is_folder_new:
            self._is_folder_new = False
            work.directories.append(tail.volume.path)
        return work

    def end_sync(self, work: SyncWork) -> None:
        """For `Flusher`: what `work` covers is safe now."""
        if work.generation == self.generation:
            self.recovery_point = max(self.recovery_point, work.end_offset)
            self._sealed_offsets = [at for at in self._sealed_offsets if at not in work.sealed_offsets]
        if self.recovery_point >= self._held_until_offset:
            end_offset = self._tail.end_offset
        else:
            end_offset = max(self.end_offset, self.recovery_point)
        if end_offset > self.end_offset:
            self.end_offset = end_offset
            if self.on_advance is not None:
                self.on_advance()

    def _time_is_up(self) -> None:
        self._timer = None
        if self._tail.volume.offline is None and self.recovery_point < self._tail.end_offset:
            self._flusher.request(self._tail.end_offset)
