"""A client of the controllers themselves (`bootstrap.controllers`, KIP-919), who know nothing of topics' leaders.

They answer DescribeCluster where brokers answer Metadata. Its answer is put into the other's form here, so that nothing
else has to tell the two kinds of cluster apart: the nodes are the controllers, and no topic is known.
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

CONTROLLERS = 2  # the type of endpoint to be told of


def request() -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)


def as_metadata(asked: MetadataRequest, response: DescribeClusterResponse) -> MetadataResponse:
    """What a broker would have answered, if its nodes were the controllers."""
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
