"""AlterConfigs (key 33): replace all settings of a resource. Served: v0 to v2.

Settings that the request does not name return to their defaults, so clients should prefer IncrementalAlterConfigs.
Log levels cannot be set this way. v2 is flexible.
"""

from __future__ import annotations

from penstock.broker.altering import alter_on_controller, refuse_all
from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


async def handle(
    server: ControllerServer, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=await alter_on_controller(server, request, context))


def refuse(request: AlterConfigsRequest, refused: Refused, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=refuse_all(request, refused))
