"""Decides when to write a snapshot and when to delete old ones, and does both in a worker.

Every node writes its own snapshots, of its committed image: after so many bytes of records, or after so much time. The
newest one always stays. An older one is deleted by age, or if log and snapshots together are too large; the log below
the oldest that is left goes with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.metadata.image import MetadataImage
from penstock.metadata.snapshot import encoded_records
from penstock.quorum.log import QuorumLog
from penstock.quorum.messages import SnapshotId
from penstock.quorum.settings import QuorumSettings
from penstock.quorum.snapshots import SnapshotHead, Snapshots
from penstock.quorum.voters import VoterHistory
from penstock.runtime import Clock, Workers

logger = logging.getLogger(__name__)


class Snapshotter:
    def __init__(
        self,
        *,
        snapshots: Snapshots,
        log: QuorumLog,
        settings: QuorumSettings,
        image: Callable[[], MetadataImage],
        voters: Callable[[], VoterHistory],
        clock: Clock,
        workers: Workers,
        bytes_after_snapshot: int,
    ) -> None:
        """`image`: the committed image of this node."""
        self._snapshots = snapshots
        self._log = log
        self._settings = settings
        self._image = image
        self._voters = voters
        self._clock = clock
        self._workers = workers
        self._bytes = bytes_after_snapshot
        self._loop = asyncio.get_running_loop()
        self._last_at = self._loop.time()
        self._writing: asyncio.Task[None] | None = None

    def appended(self, size_bytes: int) -> None:
        """The log grew."""
        self._bytes += size_bytes

    def committed(self) -> None:
        """The image may be newer: write a snapshot if it is due."""
        if self._writing is None and self._is_due():
            self._writing = self._loop.create_task(self._write(), name="metadata snapshot")
            self._writing.add_done_callback(self._written)

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _is_due(self) -> bool:
        if self._bytes >= self._settings.snapshot_after_bytes:
            return self._next_id() is not None
        after_ms = self._settings.snapshot_after_ms
        is_old = after_ms > 0 and (self._loop.time() - self._last_at) * 1000 >= after_ms
        return is_old and self._next_id() is not None

    def _next_id(self) -> SnapshotId | None:
        """The id of a snapshot of the present image; None if there is one already."""
        image = self._image()
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        latest = self._snapshots.latest
        return snapshot_id if snapshot_id > (latest or SnapshotId(0, 0)) else None

    async def _write(self) -> None:
        snapshot_id = self._next_id()
        assert snapshot_id is not None
        image, now_ms = self._image(), self._clock.wall_ms()
        history = self._voters().before(snapshot_id.end_offset)
        is_dynamic = history.kraft_version > 0
        head = SnapshotHead(history.latest if is_dynamic else None, history.kraft_version, now_ms)
        size_before, began = self._bytes, self._loop.time()
        size = await self._workers.run(
            lambda: self._snapshots.write(snapshot_id, head, encoded_records(image), now_ms=now_ms)
        )
        self._snapshots.added(snapshot_id)
        self._bytes -= size_before
        self._last_at = self._loop.time()
        took_ms = round((self._last_at - began) * 1000)
        message = "wrote the metadata snapshot %s: %d bytes in %d ms"
        logger.info(message, self._snapshots.path(snapshot_id), size, took_ms)
        await self.enforce_retention()

    async def enforce_retention(self) -> None:
        oldest_kept = await self._workers.run(self._oldest_to_keep)
        if oldest_kept is None:
            return
        dropped = self._snapshots.forget_before(oldest_kept)
        if dropped:
            self._log.delete_before(oldest_kept.end_offset)
            await self._workers.run(lambda: self._snapshots.remove(dropped))

    def _oldest_to_keep(self) -> SnapshotId | None:
        """Blocking."""
        settings, ids = self._settings, self._snapshots.ids
        sizes = [self._snapshots.size_bytes(known) for known in ids]
        excess = self._log.size_bytes + sum(sizes) - settings.retention_bytes
        first = 0
        while first + 1 < len(ids):
            age_ms = self._clock.wall_ms() - self._snapshots.written_ms(ids[first])
            is_old = 0 <= settings.retention_ms < age_ms
            if not is_old and not (excess > 0 and settings.retention_bytes >= 0):
                break
            excess -= sizes[first]
            first += 1
        return ids[first] if ids else None

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # The log still has everything. A disk that fails for good fails the next append, too.
            self._last_at, self._bytes = self._loop.time(), 0
            logger.error("cannot write a metadata snapshot: %s; the next one is tried later", error)
