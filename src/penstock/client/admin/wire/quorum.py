"""DescribeQuorum, AddRaftVoter and RemoveRaftVoter; brokers forward them to the controller."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.admin.quorum import Endpoint, QuorumDescription, QuorumNode, QuorumReplica
from penstock.client.admin.wire.common import check, id_text, known
from penstock.client.errors import MalformedAnswer
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    ReplicaState,
)
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from penstock.protocol.types import parse_uuid

METADATA_TOPIC = "__cluster_metadata"


def describe_request() -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopic(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartition(partition_index=0)]
            )
        ]
    )


def read_described(response: DescribeQuorumResponse) -> QuorumDescription:
    check(response.error_code, response.error_message)
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    if not partitions:
        raise MalformedAnswer("the response does not describe the quorum")
    result = partitions[0]
    check(result.error_code, result.error_message)
    return QuorumDescription(
        leader=result.leader_id,
        leader_epoch=result.leader_epoch,
        high_watermark=result.high_watermark,
        voters=tuple(map(_replica, result.current_voters)),
        observers=tuple(map(_replica, result.observers)),
        nodes=tuple(
            QuorumNode(
                id=node.node_id,
                endpoints=tuple(
                    Endpoint(listener=each.name, host=each.host, port=each.port) for each in node.listeners
                ),
            )
            for node in response.nodes
        ),
    )


def _replica(result: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        id=result.replica_id,
        directory_id=id_text(result.replica_directory_id),
        log_end_offset=result.log_end_offset,
        last_fetch_ms=known(result.last_fetch_timestamp),
        last_caught_up_ms=known(result.last_caught_up_timestamp),
    )


def add_request(
    voter: int, directory_id: str, endpoints: Sequence[Endpoint], *, cluster_id: str | None, timeout_ms: int
) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter,
        voter_directory_id=parse_uuid(directory_id),
        listeners=[Listener(name=each.listener, host=each.host, port=each.port) for each in endpoints],
    )


def remove_request(voter: int, directory_id: str, *, cluster_id: str | None) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=voter, voter_directory_id=parse_uuid(directory_id)
    )


def check_changed(response: AddRaftVoterResponse | RemoveRaftVoterResponse, voter: int) -> None:
    check(response.error_code, response.error_message, f"voter {voter}")
