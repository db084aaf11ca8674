"""ControllerRegistration (key 70): a starting controller registers. Served: v0."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


async def handle(
    server: ControllerServer, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    return await server.controller.register_controller(request, requested_by=context.requester())


def refuse(
    request: ControllerRegistrationRequest, refused: Refused, context: RequestContext
) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=refused.error, error_message=refused.message)
