"""AllocateProducerIds (key 67): a broker gets a block of producer ids. Served: v0."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    server: ControllerServer, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    return await server.controller.allocate_producer_ids(request)


def refuse(
    request: AllocateProducerIdsRequest, refused: Refused, context: RequestContext
) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=refused.error, producer_id_start=0, producer_id_len=0)
