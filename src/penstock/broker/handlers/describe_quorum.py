"""DescribeQuorum (key 55): who leads the metadata log, who votes, and how far each voter is. Served: v0 to
v2.

v1 tells when voters were last heard of, v2 their directories and listeners. There is one partition to ask
for, `__cluster_metadata` 0; a request that names another, alone or beside it, gets UNKNOWN_TOPIC_OR_PARTITION
for all, as in Kafka.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
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
from penstock.quorum.driver import QuorumStatus

DIRECTORY_VERSION = 2


def handle(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    asked = [
        (topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    status = broker.controller.quorum_status()
    if status.leader_id != broker.node_id:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return DescribeQuorumResponse(error_code=error, error_message=error.message, topics=[])
    now_ms = broker.runtime.clock.wall_ms()
    described = DescribeQuorumResponsePartition(
        partition_index=0,
        leader_id=status.leader_id,
        leader_epoch=status.epoch,
        high_watermark=status.high_watermark,
        current_voters=_voters(status, now_ms, context.version),
        observers=[],
    )
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopic(topic_name=METADATA_TOPIC, partitions=[described])]
    )
    if context.version >= DIRECTORY_VERSION:
        response.nodes = _nodes(status)
    return response


def _voters(status: QuorumStatus, now_ms: int, version: int) -> list[ReplicaState]:
    voters = []
    for progress in status.voters:
        state = ReplicaState(replica_id=progress.key.node_id, log_end_offset=progress.end_offset)
        if progress.key.node_id == status.leader_id:
            state.last_fetch_timestamp = state.last_caught_up_timestamp = now_ms
        if version >= DIRECTORY_VERSION:
            state.replica_directory_id = progress.key.directory_id
        voters.append(state)
    return voters


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
