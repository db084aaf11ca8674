"""InitProducerId (key 22): the id and epoch that make a producer idempotent. Served: v0 to v5.

v3 lets a producer say which id and epoch it had. For an idempotent producer that does not matter: it gets a
new id at epoch 0, as in Kafka. Transactional producers are refused with UNSUPPORTED_VERSION until
transactions are served: clients take that as fatal and say so at once, where a retriable error would make
them try until their timeout.
"""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_EPOCH = -1


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
    if request.transactional_id is not None:
        if request.transactional_id == "":
            return _refuse(ErrorCode.INVALID_REQUEST)
        return _refuse(ErrorCode.UNSUPPORTED_VERSION)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    producer_id = broker.producer_ids.take_now()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return asyncio.ensure_future(_allocate_and_answer(broker))


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
