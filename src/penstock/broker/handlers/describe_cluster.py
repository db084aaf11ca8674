"""DescribeCluster (key 60): the id and the brokers of the cluster. Served: v0 to v2.

v1 adds the endpoint type, brokers or controllers; a listener for clients returns only brokers. v2 can include fenced
brokers. The endpoints are those of the listener that the client uses.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import alive_brokers
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
    broker: Broker, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _refuse_type(request.endpoint_type)
    image = broker.metadata.image
    nodes = []
    for node_id in sorted(image.brokers):
        node = image.brokers[node_id]
        endpoint = node.endpoint(context.listener)
        if endpoint is not None and (request.include_fenced_brokers or not node.is_fenced):
            nodes.append(
                DescribeClusterBroker(
                    broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=node.rack
                )
            )
            if request.include_fenced_brokers:
                nodes[-1].is_fenced = node.is_fenced
    alive = [node.node_id for node, _ in alive_brokers(image, context.listener)]
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        # Every broker forwards requests to the controller, so clients can use the one they are connected to.
        controller_id=broker.node_id if broker.node_id in alive else next(iter(alive), -1),
        brokers=nodes,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refuse_type(endpoint_type: int) -> DescribeClusterResponse:
    error, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}."
    if endpoint_type == CONTROLLERS:
        error, message = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "Controllers are listed only on a controller listener.",
        )
    return DescribeClusterResponse(error_code=error, error_message=message, cluster_id="", brokers=[])
