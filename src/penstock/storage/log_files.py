"""The files of one log: rolls, deletes and renames segments and producer snapshots.

It only changes files; `log` knows the offsets. The returned files are those that the next sync must cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.runtime.disk import File
from penstock.storage.deletion import DelayedDeletion
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.layout import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, segment_file
from penstock.storage.producer_state import Producer
from penstock.storage.segment import Segment
from penstock.storage.segments import Segments
from penstock.storage.settings import LogSettings
from penstock.storage.snapshots import SnapshotFiles


class LogFiles:
    __slots__ = ("_deletion", "folder", "io", "segments", "snapshots")

    def __init__(
        self,
        io: DirectoryIO,
        deletion: DelayedDeletion,
        folder: str,
        segments: Segments,
        snapshots: SnapshotFiles,
    ) -> None:
        self.io = io
        self.folder = folder
        self.segments = segments
        self.snapshots = snapshots
        self._deletion = deletion

    def roll(self, base_offset: int, settings: LogSettings, producers: Iterable[Producer]) -> list[File]:
        """Seal the active segment and create a new one; an empty active segment is replaced."""
        sealed = self.segments.active
        unsynced = [sealed.file(), *sealed.seal()]
        if settings.preallocate:
            sealed.file().truncate(sealed.size)  # releases preallocated space that was not used
        segment = self._create(base_offset, settings)
        if sealed.size == 0 and sealed.base_offset < base_offset:
            self.discard(self.segments.replace_last(segment), settings)
        else:
            self.segments.add(segment)
        return [*unsynced, *self.take_snapshot(base_offset, producers)]

    def restart_at(self, base_offset: int, settings: LogSettings) -> None:
        """Delete all segments, and start with an empty one."""
        self.discard(list(self.segments), settings)
        self.segments.replace_all(self._create(base_offset, settings))

    def take_snapshot(self, offset: int, producers: Iterable[Producer]) -> list[File]:
        """Save the producer state at `offset`, the end of the log, unless a snapshot exists already."""
        file = self.snapshots.save(offset, producers)
        return [file] if file is not None else []

    def discard(self, dropped: Sequence[Segment], settings: LogSettings) -> None:
        """Take segments out of service: rename their files now, delete them after `file.delete.delay.ms`.

        Their producer snapshots go with them, except the newest. If the segments were compacted, older snapshots would
        be wrong: one that lies in a transaction does not find its marker any more.
        """
        disk = self.io.disk
        renamed = []
        newest_snapshot = self.snapshots.newest()
        for segment in dropped:
            segment.release_files()
            paths = [segment.path(suffix) for suffix in SEGMENT_SUFFIXES]
            base_offset = segment.base_offset
            if base_offset != newest_snapshot and self.snapshots.forget(base_offset):
                paths.append(f"{self.folder}/{segment_file(base_offset, SNAPSHOT_SUFFIX)}")
            for path in paths:
                if disk.exists(path):
                    disk.rename(path, path + DELETED_SUFFIX)
                    renamed.append(path + DELETED_SUFFIX)
        if renamed:
            self._deletion.remove_files_later(renamed, settings.file_delete_delay_ms)

    def release(self) -> None:
        """Forget all open files."""
        for segment in self.segments:
            segment.release_files()

    def move(self, folder: str) -> None:
        """The folder was renamed."""
        self.folder = folder
        self.snapshots.move(folder)
        for segment in self.segments:
            segment.release_files()
            segment.folder = folder

    def draw_jitter(self, settings: LogSettings) -> int:
        """How much earlier than `segment.ms` a segment rolls, so that not all logs roll at once."""
        limit = min(settings.segment_jitter_ms, settings.segment_ms)
        return self.io.random.randrange(limit) if limit > 0 else 0

    def _create(self, base_offset: int, settings: LogSettings) -> Segment:
        segment = Segment.create(self.io, self.folder, base_offset, jitter_ms=self.draw_jitter(settings))
        segment.allow_blocking_reads(False)
        if settings.preallocate:
            segment.file().reserve(settings.segment_bytes)
        return segment
