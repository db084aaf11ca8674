"""Transactions written directly to a partition, as a broker does after the coordinator has agreed."""

from __future__ import annotations

from harness.datapath import make_batch
from penstock.records.control import TxnMarkerEntry
from penstock.replication.partition import Partition
from penstock.replication.transactions import append_marker, needs_verification, start_verification
from penstock.storage.log import AppendInfo

NOW = 1_700_000_000_000


def transactional(
    producer_id: int, sequence: int, *, epoch: int = 0, value: bytes = b"x", timestamp: int = NOW
) -> memoryview:
    return make_batch(
        value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
        timestamp=timestamp,
    )


def write(
    partition: Partition,
    producer_id: int,
    sequence: int,
    *,
    epoch: int = 0,
    value: bytes = b"x",
    timestamp: int = NOW,
) -> AppendInfo:
    """Append a batch of a transaction, with the guard of a verification."""
    guard = None
    if needs_verification(partition, producer_id):
        guard = start_verification(partition, producer_id, epoch, sequence)
    batch = transactional(producer_id, sequence, epoch=epoch, value=value, timestamp=timestamp)
    return partition.append_as_leader(batch, acks=1, now_ms=NOW, guard=guard)


def end(
    partition: Partition,
    producer_id: int,
    *,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> AppendInfo:
    marker = TxnMarkerEntry(producer_id, epoch, coordinator_epoch, is_commit, version)
    return append_marker(partition, marker, now_ms=NOW)
