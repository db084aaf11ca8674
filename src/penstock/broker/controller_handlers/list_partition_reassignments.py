"""ListPartitionReassignments (key 46): the reassignments in progress. Served: v0."""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.controller.outcome import Outcome
from penstock.controller.reassignment import list_partition_reassignments
from penstock.metadata.errors import Refused
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    server: ControllerServer, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return await server.controller.run(
        lambda state: Outcome([], list_partition_reassignments(state, request)),
        timeout_ms=request.timeout_ms,
        requested_by=context.requester(),
    )


def refuse(
    request: ListPartitionReassignmentsRequest, refused: Refused, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=refused.error, error_message=refused.message, topics=[]
    )
