"""DescribeCluster (key 60): the id and the controllers of the cluster (KIP-919). Served: v0 to v2.

v1 adds the endpoint type, brokers or controllers; a controller listener returns only controllers. v0 cannot ask for
them. The endpoints are those of the listener that the client uses.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(
    server: ControllerServer, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLERS:
        return _refuse_type(request.endpoint_type)
    nodes = []
    for node_id, controller in sorted(server.metadata.image.controllers.items()):
        for endpoint in controller.endpoints:
            if endpoint.listener == context.listener:
                nodes.append(DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port))
                break
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=server.cluster_id,
        controller_id=server.quorum.status().leader_id,
        brokers=nodes,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refuse_type(endpoint_type: int) -> DescribeClusterResponse:
    error, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}."
    if endpoint_type == BROKERS:
        error, message = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "Brokers are listed only on a broker listener.",
        )
    return DescribeClusterResponse(error_code=error, error_message=message, cluster_id="", brokers=[])
