"""The snapshot files of the metadata log: `<end offset>-<epoch>.checkpoint`, in the folder of the log.

A file is written under a name of its own, synced and renamed: a file with the final name is complete. Only the newest
snapshot is loaded. Older ones stay until retention deletes them, together with the log below the oldest that is left: a
follower that fetches from there gets the newest snapshot instead.

`write`, `load` and `Download` block: run them in a worker. The list of snapshots changes only on the event loop, when
the caller reports that the work is done (`added`).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator

from penstock.quorum.log import DataBatch
from penstock.quorum.messages import SnapshotId
from penstock.quorum.snapshot_format import CorruptSnapshot, SnapshotHead, read_snapshot, snapshot_batches
from penstock.runtime.disk import Disk, File

__all__ = ["CorruptSnapshot", "Download", "SnapshotHead", "Snapshots", "snapshot_file"]

logger = logging.getLogger(__name__)

SUFFIX = ".checkpoint"
PART_SUFFIX = SUFFIX + ".part"
DELETED_SUFFIX = SUFFIX + ".deleted"

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def snapshot_file(snapshot_id: SnapshotId, suffix: str = SUFFIX) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}{suffix}"


class Snapshots:
    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self._ids: list[SnapshotId] = []
        self._attempts = itertools.count()
        self._open: dict[SnapshotId, File] = {}

    # -- on the event loop

    @property
    def ids(self) -> list[SnapshotId]:
        """In ascending order."""
        return list(self._ids)

    @property
    def latest(self) -> SnapshotId | None:
        return self._ids[-1] if self._ids else None

    @property
    def earliest(self) -> SnapshotId | None:
        return self._ids[0] if self._ids else None

    def __contains__(self, snapshot_id: SnapshotId) -> bool:
        return snapshot_id in self._ids

    def added(self, snapshot_id: SnapshotId) -> None:
        """A file was written or downloaded, and has its final name."""
        if snapshot_id not in self._ids:
            self._ids.append(snapshot_id)
            self._ids.sort()

    def forget_before(self, snapshot_id: SnapshotId) -> list[SnapshotId]:
        """Forget all older snapshots, and return them for `remove`."""
        dropped = [known for known in self._ids if known < snapshot_id]
        self._ids = [known for known in self._ids if known >= snapshot_id]
        for known in dropped:
            self._open.pop(known, None)
        return dropped

    # -- in a worker

    def scan(self) -> None:
        """Find the snapshots, and remove what an interrupted write or deletion left."""
        found = []
        for name in self._disk.list(self.folder) if self._disk.exists(self.folder) else ():
            match = _NAME.fullmatch(name)
            if match is not None:
                found.append(SnapshotId(int(match[1]), int(match[2])))
            elif name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
                self._disk.remove(os.path.join(self.folder, name))
        self._ids = sorted(found)

    def load(self, snapshot_id: SnapshotId) -> tuple[SnapshotHead, Iterator[DataBatch]]:
        path = self.path(snapshot_id)
        return read_snapshot(self._disk.read_file(path), f"the metadata snapshot {path}")

    def write(
        self, snapshot_id: SnapshotId, head: SnapshotHead, values: Iterable[bytes], *, now_ms: int
    ) -> int:
        """Write a snapshot; returns its size in bytes."""
        file = self.begin(snapshot_id)
        try:
            for batch in snapshot_batches(head, values, epoch=snapshot_id.epoch, now_ms=now_ms):
                file.append(batch)
            file.sync()
            size = file.size_bytes
            file.publish()
        except OSError:
            with contextlib.suppress(OSError):
                file.abandon()
            raise
        return size

    def begin(self, snapshot_id: SnapshotId) -> Download:
        return Download(self._disk, self.folder, snapshot_id, attempt=next(self._attempts))

    def size_bytes(self, snapshot_id: SnapshotId) -> int:
        return self._file(snapshot_id).size()

    def written_ms(self, snapshot_id: SnapshotId) -> int:
        return self._disk.modified_ms(self.path(snapshot_id))

    def read(self, snapshot_id: SnapshotId, *, position: int, size: int) -> bytes:
        """A part of the file. It starts and ends anywhere, also within a batch."""
        return self._file(snapshot_id).read(position=position, size=size)

    def remove(self, dropped: Iterable[SnapshotId]) -> None:
        for snapshot_id in dropped:
            self._disk.remove(self.path(snapshot_id))
            logger.info("deleted the metadata snapshot %s", self.path(snapshot_id))

    def path(self, snapshot_id: SnapshotId) -> str:
        return os.path.join(self.folder, snapshot_file(snapshot_id))

    def _file(self, snapshot_id: SnapshotId) -> File:
        file = self._open.get(snapshot_id)
        if file is None:
            file = self._open[snapshot_id] = self._disk.open(self.path(snapshot_id))
        return file


class Download:
    """A snapshot that is being written, to a file that no other attempt uses. Without `publish` it is removed at the
    next start."""

    def __init__(self, disk: Disk, folder: str, snapshot_id: SnapshotId, *, attempt: int) -> None:
        self._disk = disk
        self._folder = folder
        self._path = os.path.join(folder, snapshot_file(snapshot_id))
        self._part = os.path.join(folder, snapshot_file(snapshot_id, f"-{attempt}{PART_SUFFIX}"))
        if disk.exists(self._part):
            disk.remove(self._part)
        self._file = disk.open(self._part, create=True)

    @property
    def size_bytes(self) -> int:
        return self._file.size()

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._file.append([data])

    def read_back(self) -> tuple[SnapshotHead, Iterator[DataBatch]]:
        """Read what was written; CorruptSnapshot if it is not a snapshot."""
        data = self._file.read(position=0, size=self._file.size())
        return read_snapshot(data, f"the metadata snapshot {self._path}")

    def sync(self) -> None:
        self._file.sync()

    def publish(self) -> None:
        """Give the synced file its final name."""
        self._file.close()
        self._disk.rename(self._part, self._path)
        self._disk.sync_directory(self._folder)

    def abandon(self) -> None:
        self._file.close()
        self._disk.remove(self._part)
