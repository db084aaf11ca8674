"""BeginQuorumEpoch (key 53): the new leader of the quorum announces itself. Served: v0 and v1.

v1 names voters by id and directory, and has the leader's endpoints.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse


async def handle(
    server: ControllerServer, request: BeginQuorumEpochRequest, context: RequestContext
) -> BeginQuorumEpochResponse:
    response: BeginQuorumEpochResponse = await server.quorum.handle(request, version=context.version)
    return response
