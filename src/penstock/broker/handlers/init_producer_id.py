"""InitProducerId (key 22): the id and epoch that make a producer idempotent or transactional. Served: v0 to v6.

An idempotent producer gets a new id at epoch 0, whatever it had before. For a transactional one its coordinator
decides: from v3 on it may say which id and epoch it had (KIP-360), from v4 on it knows PRODUCER_FENCED, from v6 on it
may leave the end of its transactions to a coordinator outside of the cluster (KIP-939).
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_EPOCH = -1


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return answer(
            lambda: broker.transactions.init_producer_id(request, version=context.version),
            lambda refusal: _refuse(refusal.error),
        )
    producer_id = broker.producer_ids.take_now()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return _allocate_and_answer(broker)


async def _allocate_and_answer(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)
    except Refused as refusal:
        # Whatever ails the controller may pass; this is what clients expect of a coordinator in the making.
        return _refuse(
            refusal.error if refusal.error.is_retriable else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )


def _refuse(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH)
