"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings. Served: v0 and v1.

The resource is a topic, a broker, all brokers (an empty name), a group, a metrics subscription, or the loggers of
this node. A response without an error means that the change is committed and in force. v1 is flexible.
"""

from __future__ import annotations

from penstock.broker.altering import alter_on_controller, refuse_all
from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    server: ControllerServer, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=await alter_on_controller(server, request, context))


def refuse(
    request: IncrementalAlterConfigsRequest, refused: Refused, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=refuse_all(request, refused))
