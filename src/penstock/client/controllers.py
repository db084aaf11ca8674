"""Metadata of a client that talks to the controllers (`bootstrap.controllers`, KIP-919), which know no partition
leaders.

Controllers serve DescribeCluster instead of Metadata. Its response is converted here to a MetadataResponse, so that
nothing else has to distinguish the two: the nodes are the controllers, and there are no topics.
"""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

CONTROLLERS = 2  # the endpoint type: controllers


def request() -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)


def as_metadata(asked: MetadataRequest, response: DescribeClusterResponse) -> MetadataResponse:
    """The MetadataResponse of a broker whose nodes were the controllers."""
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in response.brokers
        ],
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=each.name, partitions=[]
            )
            for each in asked.topics or []
        ],
        error_code=response.error_code,
    )
