"""InitProducerId (key 22): the producer id and epoch of an idempotent or transactional producer. Served: v0 to v6.

An idempotent producer always gets a new id with epoch 0. For a transactional one, its coordinator decides. From v3 on,
the producer can send its current id and epoch (KIP-360); from v4 on, it knows PRODUCER_FENCED; from v6 on, it can
enable two-phase commit (KIP-939).
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return respond(
            lambda: broker.transactions.init_producer_id(request, version=context.version),
            lambda refusal: _refuse(refusal.error),
        )
    producer_id = broker.producer_ids.take_now()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return _allocate_and_respond(broker)


async def _allocate_and_respond(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)
    except Refused as refusal:
        # The error of the controller may be temporary, and clients retry after this one.
        return _refuse(
            refusal.error if refusal.error.is_retriable else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )


def _refuse(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH)
