"""The own log and its snapshots, as the core sees them."""

from __future__ import annotations

from penstock.quorum.log import QuorumLog
from penstock.quorum.messages import OffsetAndEpoch, SnapshotId
from penstock.quorum.snapshots import Snapshots


class StoredLogView:
    def __init__(self, log: QuorumLog, snapshots: Snapshots) -> None:
        self._log = log
        self._snapshots = snapshots

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        snapshot = self._snapshots.latest
        if snapshot is not None and snapshot.end_offset >= self._log.end_offset:
            return snapshot.epoch
        return self._log.last_epoch

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        start_offset = self._log.start_offset
        return next((known for known in self._snapshots.ids if known.end_offset >= start_offset), None)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots.latest

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        found = self._log.end_of_epoch(epoch)
        if found is not None:
            return OffsetAndEpoch(found[1], found[0])
        start_offset = self._log.start_offset
        for known in self._snapshots.ids:
            if known.end_offset == start_offset and known.epoch <= epoch:
                return OffsetAndEpoch(*known)
        return OffsetAndEpoch(0, 0)
