"""Comparing two logs by epochs: where a follower's log leaves the leader's, and where to truncate it.

Two logs that have a record of the same offset and epoch are equal up to it. So the leader needs only the end offset of
the follower and the epoch of its last record.
"""

from __future__ import annotations

from penstock.quorum.messages import OffsetAndEpoch, SnapshotId
from penstock.quorum.ready import LogView


def compare(log: LogView, fetch_offset: int, last_fetched_epoch: int) -> OffsetAndEpoch | SnapshotId | None:
    """As leader: None if the follower's log is a prefix of the own; otherwise where it must look for the common
    prefix, or the snapshot that it must fetch."""
    if fetch_offset == 0 and last_fetched_epoch == 0 and log.start_offset == 0:
        return None
    earliest = log.earliest_snapshot
    start = log.start_offset
    if earliest is not None and (
        fetch_offset < start
        or (fetch_offset == start > 0 and last_fetched_epoch != earliest.epoch)
        or last_fetched_epoch < earliest.epoch
    ):
        assert log.latest_snapshot is not None
        return log.latest_snapshot
    end = log.end_of_epoch(last_fetched_epoch)
    if end.epoch != last_fetched_epoch or end.offset < fetch_offset:
        return end
    return None


def truncation_offset(log: LogView, diverging: OffsetAndEpoch) -> int:
    """As follower: the end offset to which the own log must be truncated before the next fetch."""
    own = log.end_of_epoch(diverging.epoch)
    offset = min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset
    return min(offset, log.end_offset)
