"""BrokerHeartbeat (key 63): a broker is alive, and asks to be unfenced or to shut down. Served: v0 to v2."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def handle(
    server: ControllerServer, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    return await server.controller.broker_heartbeat(request, requested_by=context.requester())


def refuse(
    request: BrokerHeartbeatRequest, refused: Refused, context: RequestContext
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=refused.error, should_shut_down=False)
