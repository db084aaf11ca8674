"""TxnOffsetCommit (key 28): a producer commits the offsets of a group in its transaction. Served: v0 to v5.

v1 changes nothing here. v2 adds leader epochs, v3 the member, so that the group can fence it (KIP-447). From v4 on,
producers know TRANSACTION_ABORTABLE. Before v5, producers add the group with AddOffsetsToTxn; from v5 on, this request
adds it (KIP-890).

The offsets are written to the partition of `__consumer_offsets` of the group, so that partition must belong to the
transaction. The response has an error per partition, but none for the whole request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.broker.transaction_verification import PartitionGuard
from penstock.coordinator.group.offsets.transactional_commit import has_known_partitions, refuse
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.records.batch import NO_SEQUENCE
from penstock.replication.transactions import needs_verification, start_verification

ABORTABLE_VERSION = 4
ADDING_VERSION = 5

Response = TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]


def handle(
    broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    image, version = broker.metadata.image, context.version
    if not has_known_partitions(request, image):
        return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, image=image, version=version)
    if not request.group_id:
        return refuse(request, ErrorCode.INVALID_GROUP_ID, image=image, version=version)
    if request.producer_id < 0 or request.producer_epoch < 0:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return refuse(request, error, image=image, version=version)
    return respond(
        lambda: _commit(broker, request, context),
        lambda refusal: refuse(request, refusal.error, image=image, version=version),
    )


def _commit(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> Response:
    version = context.version
    index = broker.groups.partition_of(request.group_id)
    partition = broker.partitions.get(OFFSETS_TOPIC, index)
    if partition is None or not partition.is_leader or partition.is_offline:
        raise Refused(
            ErrorCode.NOT_COORDINATOR, f"this broker is not the coordinator of group {request.group_id}"
        )
    producer = request.producer_id, request.producer_epoch
    if not needs_verification(partition, *producer):
        return broker.groups.commit_in_transaction(request, version)
    guard = PartitionGuard(partition, lambda: start_verification(partition, *producer, NO_SEQUENCE))
    where = TopicPartition(OFFSETS_TOPIC, index)
    errors = broker.transaction_verifier.verify(
        request.transactional_id, *producer, [where], [guard], adds=version >= ADDING_VERSION
    )
    if isinstance(errors, dict):
        return _commit_if_verified(broker, request, version, errors[where], guard)
    response = asyncio.ensure_future(_commit_later(broker, request, version, errors, guard))
    if context.connection is not None:
        context.connection.hold(response)  # commits must stay in order, because the later one counts
    return response


async def _commit_later(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    version: int,
    errors: asyncio.Future[dict[TopicPartition, ErrorCode]],
    guard: PartitionGuard,
) -> TxnOffsetCommitResponse:
    (error,) = (await errors).values()
    response = _commit_if_verified(broker, request, version, error, guard)
    return response if isinstance(response, TxnOffsetCommitResponse) else await response


def _commit_if_verified(
    broker: Broker, request: TxnOffsetCommitRequest, version: int, error: ErrorCode, guard: PartitionGuard
) -> Response:
    if error is not ErrorCode.NONE:
        guard.release()
        raise Refused(
            _translate(error, version),
            f"the offsets of group {request.group_id} could not be added to the transaction: {error.name}",
        )
    return broker.groups.commit_in_transaction(request, version, guard=guard.guard)


def _translate(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # which they retry
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return error
