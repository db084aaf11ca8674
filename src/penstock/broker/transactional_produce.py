"""Verification of the partitions of a transactional produce request.

A partition in which the transaction of the producer is open needs no verification. For the others, a guard is created,
the coordinator is asked (`transaction_verification`), and the append needs the guard: a transaction that ends in
between invalidates it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.transaction_verification import PartitionGuard
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import ProduceRequest
from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, MAGIC, MAGIC_AT, BatchHeader
from penstock.replication.partition import Partition
from penstock.replication.transactions import needs_verification, start_verification
from penstock.storage.transactions.guards import VerificationGuard

ABORTABLE_VERSION = 11  # KIP-890: from this version on, producers know TRANSACTION_ABORTABLE
ADDING_VERSION = 12  # and from this version on, the broker adds partitions
TOPIC_ID_VERSION = 13

COORDINATOR_UNAVAILABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of the coordinator that a producer does not expect from the leader of a partition."""

RETRIED = (*COORDINATOR_UNAVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS)
"""After these, the producer sends the same batch again, and no later one may overtake it: the guard stays."""


class Verification:
    """The result of the verification of one request: a guard or an error for each partition."""

    __slots__ = ("_guards", "_refusals")

    def __init__(self) -> None:
        self._guards: dict[Partition, PartitionGuard] = {}
        self._refusals: dict[Partition, Refused] = {}

    def add_guard(self, partition: Partition, guard: PartitionGuard) -> None:
        if partition in self._guards:  # the request names it twice
            self.release(partition)
        self._guards[partition] = guard

    def guards(self) -> Iterable[PartitionGuard]:
        return self._guards.values()

    def refuse(self, partition: Partition, refusal: Refused) -> None:
        self._refusals[partition] = refusal

    def release(self, partition: Partition) -> None:
        self._guards.pop(partition).release()

    def release_all(self) -> None:
        for partition in list(self._guards):
            self.release(partition)

    def guard_for(self, partition: Partition) -> VerificationGuard | None:
        """The guard for the append; None if the transaction is already open there. Raises `Refused` if it was
        refused."""
        refusal = self._refusals.get(partition)
        if refusal is not None:
            raise refusal
        guard = self._guards.get(partition)
        return None if guard is None else guard.guard


def verify(
    broker: Broker, request: ProduceRequest, version: int
) -> Verification | asyncio.Future[Verification]:
    """Verify all partitions of a request. Raises `Refused` if the request itself is invalid."""
    verification = Verification()
    adds = version >= ADDING_VERSION
    producer: tuple[int, int] | None = None
    asked: dict[TopicPartition, Partition] = {}
    for partition, header in _transactional_batches(broker, request, version):
        if producer not in (None, (header.producer_id, header.producer_epoch)):
            verification.release_all()
            raise Refused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "a transactional produce request must contain batches of only one producer id and epoch",
            )
        producer = header.producer_id, header.producer_epoch
        try:
            if needs_verification(partition, header.producer_id, header.producer_epoch):
                take = partial(
                    start_verification, partition, *producer, header.base_sequence, is_version_2=adds
                )
                verification.add_guard(partition, PartitionGuard(partition, take))
                asked[TopicPartition(partition.topic, partition.index)] = partition
        except Refused as refusal:
            verification.refuse(partition, refusal)
    if producer is None or not asked:
        return verification
    assert request.transactional_id is not None
    errors = broker.transaction_verifier.verify(
        request.transactional_id, *producer, list(asked), verification.guards(), adds=adds
    )
    if isinstance(errors, dict):
        return _finish(verification, asked, errors, version)
    return asyncio.ensure_future(_finish_later(verification, asked, errors, version))


def _transactional_batches(
    broker: Broker, request: ProduceRequest, version: int
) -> Iterator[tuple[Partition, BatchHeader]]:
    """The transactional batches for partitions that this node leads. The append reports errors of all other batches."""
    table = broker.partitions
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not isinstance(records, memoryview) or len(records) < HEADER_BYTES:
                continue
            if records[MAGIC_AT] != MAGIC:
                continue
            header = kernel.read_header(records)
            if not header.is_transactional or not header.has_producer_id or header.base_sequence < 0:
                continue
            if version >= TOPIC_ID_VERSION:
                partition = table.get_by_id(topic.topic_id, data.index)
            else:
                partition = table.get(topic.name, data.index)
            if partition is not None and partition.is_leader:
                yield partition, header


async def _finish_later(
    verification: Verification,
    asked: dict[TopicPartition, Partition],
    errors: asyncio.Future[dict[TopicPartition, ErrorCode]],
    version: int,
) -> Verification:
    return _finish(verification, asked, await errors, version)


def _finish(
    verification: Verification,
    asked: dict[TopicPartition, Partition],
    errors: dict[TopicPartition, ErrorCode],
    version: int,
) -> Verification:
    for where, partition in asked.items():
        error = errors[where]
        if error is not ErrorCode.NONE:
            verification.refuse(partition, _translate(error, where, version))
            if error not in RETRIED:
                verification.release(partition)
    return verification


def _translate(error: ErrorCode, where: TopicPartition, version: int) -> Refused:
    name = f"{where.topic}-{where.partition}"
    if error in COORDINATOR_UNAVAILABLE or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDING_VERSION
    ):
        # The one error that every producer retries without refreshing its metadata.
        return Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{name} could not be verified with the transaction coordinator: {error.name}; try again",
        )
    if error is ErrorCode.PRODUCER_FENCED:
        return Refused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"{name}: this producer was fenced by another one with the same transactional id and a newer epoch",
        )
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        error = ErrorCode.INVALID_TXN_STATE
    return Refused(error, f"{name} could not be added to the transaction: {error.name}")
