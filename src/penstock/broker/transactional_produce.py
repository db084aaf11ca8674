"""Which partitions of a transactional produce request may be written to, and why the others may not.

A partition in which the producer's transaction is open needs no question. For the others a guard is taken, then the
coordinator is asked (`transaction_adds`), and the append shows the guard: a transaction that ends in between takes
the permission back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.transaction_adds import Permit
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import ProduceRequest
from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, MAGIC, MAGIC_AT, BatchHeader
from penstock.replication.partition import Partition
from penstock.storage.transactions.guards import VerificationGuard

ABORTABLE_VERSION = 11  # KIP-890: from here on producers know TRANSACTION_ABORTABLE
ADDING_VERSION = 12  # and from here on they leave it to the broker to add partitions
TOPIC_ID_VERSION = 13

PASSING = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Of the coordinator, which a producer does not expect to hear of from a partition's leader."""

TRIED_AGAIN = (*PASSING, ErrorCode.CONCURRENT_TRANSACTIONS)
"""After these the same batch comes again, and must not have been overtaken: the guard stays."""


class Verdict:
    """What was found out about the partitions of one request."""

    __slots__ = ("_permits", "_refusals")

    def __init__(self) -> None:
        self._permits: dict[Partition, Permit] = {}
        self._refusals: dict[Partition, Refused] = {}

    def grant(self, partition: Partition, permit: Permit) -> None:
        if partition in self._permits:  # it is named twice
            self.give_back(partition)
        self._permits[partition] = permit

    def permits(self) -> Iterable[Permit]:
        return self._permits.values()

    def refuse(self, partition: Partition, refusal: Refused) -> None:
        self._refusals[partition] = refusal

    def give_back(self, partition: Partition) -> None:
        self._permits.pop(partition).give_back()

    def give_all_back(self) -> None:
        for partition in list(self._permits):
            self.give_back(partition)

    def guard_for(self, partition: Partition) -> VerificationGuard | None:
        """What to show with the append; None where the transaction is open already. `Refused` where it is not."""
        refusal = self._refusals.get(partition)
        if refusal is not None:
            raise refusal
        permit = self._permits.get(partition)
        return None if permit is None else permit.guard


def verify(broker: Broker, request: ProduceRequest, version: int) -> Verdict | asyncio.Future[Verdict]:
    """`Refused` for the request as a whole."""
    verdict = Verdict()
    adds = version >= ADDING_VERSION
    producer: tuple[int, int] | None = None
    asked: dict[TopicPartition, Partition] = {}
    for partition, header in _transactional_batches(broker, request, version):
        if producer not in (None, (header.producer_id, header.producer_epoch)):
            verdict.give_all_back()
            raise Refused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "a transactional produce request must have record batches of one producer id only",
            )
        producer = header.producer_id, header.producer_epoch
        try:
            if partition.needs_verification(header.producer_id, header.producer_epoch):
                take = partial(partition.guard, *producer, header.base_sequence, is_version_2=adds)
                verdict.grant(partition, Permit(partition, take))
                asked[TopicPartition(partition.topic, partition.index)] = partition
        except Refused as refusal:
            verdict.refuse(partition, refusal)
    if producer is None or not asked:
        return verdict
    assert request.transactional_id is not None
    errors = broker.transaction_adds.admit(
        request.transactional_id, *producer, list(asked), verdict.permits(), adds=adds
    )
    if isinstance(errors, dict):
        return _note(verdict, asked, errors, version)
    return asyncio.ensure_future(_note_later(verdict, asked, errors, version))


def _transactional_batches(
    broker: Broker, request: ProduceRequest, version: int
) -> Iterator[tuple[Partition, BatchHeader]]:
    """Those of partitions that this node has. What is wrong with the others, or with a batch that is without a producer
    or without a sequence, is said where they are appended."""
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


async def _note_later(
    verdict: Verdict,
    asked: dict[TopicPartition, Partition],
    errors: asyncio.Future[dict[TopicPartition, ErrorCode]],
    version: int,
) -> Verdict:
    return _note(verdict, asked, await errors, version)


def _note(
    verdict: Verdict,
    asked: dict[TopicPartition, Partition],
    errors: dict[TopicPartition, ErrorCode],
    version: int,
) -> Verdict:
    for where, partition in asked.items():
        error = errors[where]
        if error is not ErrorCode.NONE:
            verdict.refuse(partition, _as_producers_know(error, where, version))
            if error not in TRIED_AGAIN:
                verdict.give_back(partition)
    return verdict


def _as_producers_know(error: ErrorCode, where: TopicPartition, version: int) -> Refused:
    name = f"{where.topic}-{where.partition}"
    if error in PASSING or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDING_VERSION):
        # The one retriable error that every producer takes as such and asks nobody for new metadata about.
        return Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"adding {name} to the transaction could not be verified: {error.name}; try again",
        )
    if error is ErrorCode.PRODUCER_FENCED:
        return Refused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"{name}: a producer with the same transactional id and a newer epoch has fenced this one",
        )
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        error = ErrorCode.INVALID_TXN_STATE
    return Refused(error, f"{name} could not be added to the transaction: {error.name}")
