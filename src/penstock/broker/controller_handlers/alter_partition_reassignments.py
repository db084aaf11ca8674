"""AlterPartitionReassignments (key 45): move partitions to other brokers, or cancel that. Served: v0 and v1.

v1 adds `allow_replication_factor_change` (KIP-860).
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.controller.reassignment import alter_partition_reassignments
from penstock.metadata.errors import Refused
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    server: ControllerServer, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return await server.controller.run(
        lambda state: alter_partition_reassignments(state, request),
        timeout_ms=request.timeout_ms,
        requested_by=context.requester(),
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, refused: Refused, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=refused.error,
        error_message=refused.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=refused.error,
                        error_message=refused.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
