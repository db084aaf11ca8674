"""Where two logs differ, by their leader epochs (KIP-101, KIP-595)."""

from __future__ import annotations

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.storage.log import Log


def diverging_epoch(log: Log, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Where a reader's log diverges from this one, as (epoch, end offset); None if it does not."""
    epoch, end_offset = log.epoch_end_offset(last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or fetch_offset < log.start_offset:
        raise Refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log} does not know where leader epoch {last_fetched_epoch} ended, for offset {fetch_offset}",
        )
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Where to truncate, given that the leader's log has `epoch` up to `end_offset` and differs after that. If this log
    does not know that epoch, the next fetch finds a smaller one."""
    known_epoch, known_end_offset = log.epoch_end_offset(epoch)
    if known_epoch < 0 or known_end_offset < 0:
        return min(end_offset, log.end_offset)
    if known_epoch != epoch:
        return min(known_end_offset, log.end_offset)
    return min(known_end_offset, end_offset, log.end_offset)
