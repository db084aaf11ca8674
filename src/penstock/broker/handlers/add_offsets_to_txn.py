"""AddOffsetsToTxn (key 25): add the offsets of a group to a transaction. Served: v0 to v4.

It adds the partition of `__consumer_offsets` of the group. Before v2, producers do not know PRODUCER_FENCED. With
transaction version 2, TxnOffsetCommit adds the partition, and this request is not needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.internal_topics import create_internal_topic
from penstock.broker.responses import respond
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION = 2


def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    if broker.metadata.image.topics.get(OFFSETS_TOPIC) is None:
        return _create_and_add(broker, request, context)
    return _add(broker, request, context)


async def _create_and_add(
    broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    await create_internal_topic(broker, OFFSETS_TOPIC)
    response = _add(broker, request, context)
    return response if isinstance(response, AddOffsetsToTxnResponse) else await response


def _add(
    broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    version = context.version

    def response(errors: dict[TopicPartition, ErrorCode]) -> AddOffsetsToTxnResponse:
        (error,) = errors.values()
        return _response(error, version)

    def call() -> AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]:
        partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
        added = broker.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [partition],
            verify_only=False,
            is_version_2=False,
        )
        return response(added) if isinstance(added, dict) else asyncio.ensure_future(later(added))

    async def later(added: asyncio.Future[dict[TopicPartition, ErrorCode]]) -> AddOffsetsToTxnResponse:
        return response(await added)

    return respond(call, lambda refusal: _response(refusal.error, version))


def _response(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error)
