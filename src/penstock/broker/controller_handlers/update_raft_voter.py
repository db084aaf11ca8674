"""UpdateRaftVoter (key 82): a voter reports its endpoints and KRaft versions to the leader. Served: v0."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


async def handle(
    server: ControllerServer, request: UpdateRaftVoterRequest, context: RequestContext
) -> UpdateRaftVoterResponse:
    response: UpdateRaftVoterResponse = await server.quorum.handle(request, version=context.version)
    return response
