"""Deletes records from the start of a partition (DeleteRecords)."""

from __future__ import annotations

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.replication.partition import Partition
from penstock.replication.purgatory import DelayedOperation, OnComplete


def delete_records(partition: Partition, offset: int) -> int:
    """Move the log start offset to `offset` (-1: to the high watermark) and return it."""
    partition.check_access(leader_epoch=NO_LEADER_EPOCH, leader_only=True)
    log, high_watermark = partition.log, partition.high_watermark
    if not log.settings.delete:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"records of {partition} cannot be deleted: its cleanup.policy is compact and does not include delete",
        )
    if offset == -1:
        offset = high_watermark
    if offset < 0 or offset > high_watermark:
        raise Refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} cannot be deleted up to offset {offset}: its high watermark is {high_watermark}",
        )
    with partition.refusing():
        log.advance_start(offset)
    partition.start_offset_moved()
    return offset


def wait_for_deletion(partition: Partition, offset: int, on_complete: OnComplete) -> DelayedOperation | None:
    """None if every in-sync replica has deleted the records below `offset`. Otherwise `on_complete` is called later,
    unless the caller cancels the operation."""
    if partition.low_watermark >= offset:
        return None
    return partition.purgatory.deletions.add(offset, on_complete)
