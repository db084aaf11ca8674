"""RemoveRaftVoter (key 81): remove a voter from the quorum. Served: v0.

The leader may remove itself: it leads until the removal is committed.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from penstock.quorum.wire_serving import error_response


async def handle(
    server: ControllerServer, request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse:
    response: RemoveRaftVoterResponse = await server.quorum.handle(request, version=context.version)
    return response


def refuse(
    request: RemoveRaftVoterRequest, refused: Refused, context: RequestContext
) -> RemoveRaftVoterResponse:
    response: RemoveRaftVoterResponse = error_response(request, refused.error, refused.message)
    return response
