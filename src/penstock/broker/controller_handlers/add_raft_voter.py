"""AddRaftVoter (key 80): make a controller a voter of the quorum. Served: v0 and v1.

The new voter must have caught up with the leader. v1 has `ack_when_committed`: with false the response is sent as soon
as the change is written.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from penstock.quorum.wire_serving import error_response


async def handle(
    server: ControllerServer, request: AddRaftVoterRequest, context: RequestContext
) -> AddRaftVoterResponse:
    response: AddRaftVoterResponse = await server.quorum.handle(request, version=context.version)
    return response


def refuse(request: AddRaftVoterRequest, refused: Refused, context: RequestContext) -> AddRaftVoterResponse:
    response: AddRaftVoterResponse = error_response(request, refused.error, refused.message)
    return response
