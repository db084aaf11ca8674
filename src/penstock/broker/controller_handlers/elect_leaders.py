"""ElectLeaders (key 43): elect preferred leaders, or unclean ones where no other is left. Served: v0 to v2.

v0 elects preferred leaders only; v1 adds unclean ones and an error of the whole request.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.controller.elect_leaders import elect_leaders
from penstock.metadata.errors import Refused
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ERROR_VERSION = 1


async def handle(
    server: ControllerServer, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    return await server.controller.run(
        lambda state: elect_leaders(state, request),
        timeout_ms=request.timeout_ms,
        requested_by=context.requester(),
    )


def refuse(request: ElectLeadersRequest, refused: Refused, context: RequestContext) -> ElectLeadersResponse:
    response = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=refused.error, error_message=refused.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
    if context.version >= ERROR_VERSION:
        response.error_code = refused.error
    return response
