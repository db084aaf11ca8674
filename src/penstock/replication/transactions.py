"""Transactions of a partition: the verification before their first write (KIP-890), and their markers."""

from __future__ import annotations

from penstock.protocol.constants import ACKS_ALL
from penstock.records import kernel
from penstock.records.batch import stamp_append_time
from penstock.records.control import TxnMarkerEntry, end_transaction_batch
from penstock.replication.partition import Partition
from penstock.storage.errors import StorageError
from penstock.storage.log import AppendInfo
from penstock.storage.transactions.guards import VerificationGuard


def needs_verification(partition: Partition, producer_id: int, producer_epoch: int | None = None) -> bool:
    """Whether a transactional batch would begin a transaction here, and so needs a guard. With another epoch than that
    of the open transaction it does too."""
    producer = partition.log.producers.get(producer_id)
    if producer is None or producer.transaction_start_offset < 0:
        return True
    return producer_epoch is not None and producer_epoch != producer.epoch


def start_verification(
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    is_version_2: bool = False,
) -> VerificationGuard:
    """The guard that lets the batch of `sequence` begin a transaction here. Take it before asking the coordinator.

    With `is_version_2` the transaction's first batch must have sequence 0 (KIP-890).
    """
    log = partition.log
    try:
        return log.producers.start_verification(
            producer_id,
            producer_epoch,
            sequence,
            is_version_2=is_version_2,
            now_ms=log.io.clock.wall_ms(),
        )
    except StorageError as error:
        raise partition.refusal(error) from error


def release_guard(partition: Partition, guard: VerificationGuard) -> None:
    """The coordinator has refused the verification for good."""
    if not partition.is_offline:
        partition.log.producers.guards.release(guard)


def append_marker(partition: Partition, marker: TxnMarkerEntry, *, now_ms: int) -> AppendInfo:
    """Append a transaction marker, which needs in-sync replicas as acks=all does; may raise ColdPages."""
    partition.check_can_append(ACKS_ALL)
    log = partition.log
    batch = memoryview(
        end_transaction_batch(
            is_commit=marker.is_commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
    )
    if partition.rules.stamps_append_time:
        stamp_append_time(batch, 0, now_ms)
    header = kernel.read_header(batch, 0)
    try:
        info = log.append_marker(batch, header, marker, leader_epoch=partition.leader_epoch, now_ms=now_ms)
    except StorageError as error:
        raise partition.refusal(error) from error
    partition.appended(log, len(batch))
    return info
