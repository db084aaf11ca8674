"""Vote (key 52): a member of the quorum asks for a vote. Served: v0 to v2.

v1 names voters by id and directory, v2 has pre-votes. The core of the quorum decides (`quorum.requests`).
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.vote import VoteRequest, VoteResponse


async def handle(server: ControllerServer, request: VoteRequest, context: RequestContext) -> VoteResponse:
    response: VoteResponse = await server.quorum.handle(request, version=context.version)
    return response
