"""DescribeQuorum (key 55): the leader, voters and observers of the metadata log, and their offsets. Served: v0 to v2.

v1 adds the times at which a replica fetched and was caught up, v2 directories and listeners. The only valid partition
is `__cluster_metadata` 0. A request with any other partition gets UNKNOWN_TOPIC_OR_PARTITION for all, as in Kafka.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.metadata.names import METADATA_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
    Listener,
    Node,
    ReplicaState,
)
from penstock.quorum.status import QuorumStatus, ReplicaStatus

DIRECTORY_VERSION = 2


def handle(
    server: ControllerServer, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    asked = [
        (topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    status = server.quorum.status()
    if status.leader_id != server.node_id:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return DescribeQuorumResponse(error_code=error, error_message=error.message, topics=[])
    described = DescribeQuorumResponsePartition(
        partition_index=0,
        leader_id=status.leader_id,
        leader_epoch=status.epoch,
        high_watermark=status.high_watermark,
        current_voters=[_replica(voter, context.version) for voter in status.voters],
        observers=[_replica(observer, context.version) for observer in status.observers],
    )
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopic(topic_name=METADATA_TOPIC, partitions=[described])]
    )
    if context.version >= DIRECTORY_VERSION:
        response.nodes = _nodes(status)
    return response


def refuse(
    request: DescribeQuorumRequest, refused: Refused, context: RequestContext
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=refused.error, error_message=refused.message, topics=[])


def _replica(replica: ReplicaStatus, version: int) -> ReplicaState:
    state = ReplicaState(
        replica_id=replica.key.node_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
    if version >= DIRECTORY_VERSION:
        state.replica_directory_id = replica.key.directory_id
    return state


def _nodes(status: QuorumStatus) -> list[Node]:
    return [
        Node(
            node_id=voter.key.node_id,
            listeners=[
                Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
                for endpoint in voter.endpoints
            ],
        )
        for voter in status.voter_details
    ]


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=error.message,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
