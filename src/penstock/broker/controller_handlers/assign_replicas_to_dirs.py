"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas. Served: v0."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


async def handle(
    server: ControllerServer, request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse:
    return await server.controller.assign_replicas_to_dirs(request, requested_by=context.requester())


def refuse(
    request: AssignReplicasToDirsRequest, refused: Refused, context: RequestContext
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=refused.error, directories=[])
