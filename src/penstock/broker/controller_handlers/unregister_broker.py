"""UnregisterBroker (key 64): an administrator removes a broker that will not come back. Served: v0."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(
    server: ControllerServer, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    return await server.controller.unregister_broker(request, requested_by=context.requester())


def refuse(
    request: UnregisterBrokerRequest, refused: Refused, context: RequestContext
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=refused.error, error_message=refused.message)
