"""TxnOffsetCommit (key 28): a producer commits what a group has read, to hold with its transaction. Served: v0 to v5.

v1 changes nothing here. v2 adds leader epochs, v3 the member for which it is committed, and with it the group's checks
(KIP-447). From v4 on producers know TRANSACTION_ABORTABLE. Before v5 they have added the group with AddOffsetsToTxn;
from v5 on this adds it (KIP-890).

The offsets are written to the partition of `__consumer_offsets` in which the group lives, so it is that partition that
must belong to the transaction, like any other that is written to. Errors stand with each partition; there is no room
for one that concerns all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.transaction_adds import Permit
from penstock.coordinator.group.transactional_commit import has_known_partitions, refuse
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.records.batch import NO_SEQUENCE

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
    return answer(
        lambda: _commit(broker, request, context),
        lambda refusal: refuse(request, refusal.error, image=image, version=version),
    )


def _commit(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> Response:
    version = context.version
    index = broker.groups.partition_of(request.group_id)
    partition = broker.partitions.get(OFFSETS_TOPIC, index)
    if partition is None or not partition.is_leader or partition.is_offline:
        raise Refused(
            ErrorCode.NOT_COORDINATOR, f"this broker is not the coordinator of the group {request.group_id}"
        )
    producer = request.producer_id, request.producer_epoch
    if not partition.needs_verification(*producer):
        return broker.groups.commit_in_transaction(request, version)
    permit = Permit(partition, lambda: partition.guard(*producer, NO_SEQUENCE))
    where = TopicPartition(OFFSETS_TOPIC, index)
    errors = broker.transaction_adds.admit(
        request.transactional_id, *producer, [where], [permit], adds=version >= ADDING_VERSION
    )
    if isinstance(errors, dict):
        return _commit_if_admitted(broker, request, version, errors[where], permit)
    response = asyncio.ensure_future(_commit_later(broker, request, version, errors, permit))
    if context.connection is not None:
        context.connection.hold(response)  # of two commits the later one counts, so they must stay in order
    return response


async def _commit_later(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    version: int,
    errors: asyncio.Future[dict[TopicPartition, ErrorCode]],
    permit: Permit,
) -> TxnOffsetCommitResponse:
    (error,) = (await errors).values()
    response = _commit_if_admitted(broker, request, version, error, permit)
    return response if isinstance(response, TxnOffsetCommitResponse) else await response


def _commit_if_admitted(
    broker: Broker, request: TxnOffsetCommitRequest, version: int, error: ErrorCode, permit: Permit
) -> Response:
    if error is not ErrorCode.NONE:
        permit.give_back()
        raise Refused(
            _as_producers_know(error, version),
            f"the offsets of group {request.group_id} could not be added to the transaction: {error.name}",
        )
    return broker.groups.commit_in_transaction(request, version, guard=permit.guard)


def _as_producers_know(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # which they take as a reason to try again
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return error
