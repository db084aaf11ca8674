"""BrokerRegistration (key 62): a starting broker registers. Served: v0 to v4."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


async def handle(
    server: ControllerServer, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    return await server.controller.register_broker(request, requested_by=context.requester())


def refuse(
    request: BrokerRegistrationRequest, refused: Refused, context: RequestContext
) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=refused.error)
