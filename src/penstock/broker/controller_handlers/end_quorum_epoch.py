"""EndQuorumEpoch (key 54): the leader of the quorum resigned. Served: v0 and v1.

v1 names the preferred candidates by id and directory.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


async def handle(
    server: ControllerServer, request: EndQuorumEpochRequest, context: RequestContext
) -> EndQuorumEpochResponse:
    response: EndQuorumEpochResponse = await server.quorum.handle(request, version=context.version)
    return response
