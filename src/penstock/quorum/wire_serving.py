"""The requests of other nodes to the quorum: from Kafka's messages to those of the core, and the responses back.

A request with the id of another cluster, or about another partition, never reaches the core: `read_request` raises
`Rejected` with the error of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.metadata.names import METADATA_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from penstock.protocol.types import METADATA_TOPIC_ID, ZERO_UUID, Buffer, Uuid
from penstock.quorum import messages as core
from penstock.quorum.voters import KRaftVersions, ReplicaKey, Voter, VoterEndpoint

PARTITION = 0

Request = (
    vote.VoteRequest
    | begin_quorum_epoch.BeginQuorumEpochRequest
    | end_quorum_epoch.EndQuorumEpochRequest
    | fetch.FetchRequest
    | fetch_snapshot.FetchSnapshotRequest
    | add_raft_voter.AddRaftVoterRequest
    | remove_raft_voter.RemoveRaftVoterRequest
    | update_raft_voter.UpdateRaftVoterRequest
)


class Rejected(Exception):
    """The request is not for this quorum."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def read_request(request: Request, *, cluster_id: str, request_id: int) -> core.Request:
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise Rejected(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the request is for cluster {request.cluster_id}, but this is cluster {cluster_id}",
        )
    read: Callable[[Any, int], core.Request] = _READERS[type(request)]
    return read(request, request_id)


def _only(topics: Sequence[Any], error: ErrorCode) -> Any:
    """The partition `__cluster_metadata-0`, which must be the only one."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, partition = topics[0], topics[0].partitions[0]
        name = getattr(topic, "topic_name", None) or getattr(topic, "name", "")
        index = getattr(partition, "partition_index", None)
        if index is None:
            index = partition.partition
        if name == METADATA_TOPIC and index == PARTITION:
            return partition
    raise Rejected(error, f"the request is not about {METADATA_TOPIC}-{PARTITION} only")


def _voter(node_id: int, directory_id: Uuid) -> ReplicaKey | None:
    """The receiver as the sender knows it; versions before KIP-853 do not say."""
    return None if node_id < 0 else ReplicaKey(node_id, directory_id)


def _vote(request: vote.VoteRequest, request_id: int) -> core.VoteRequest:
    partition = _only(request.topics, ErrorCode.INVALID_REQUEST)
    return core.VoteRequest(
        request_id,
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=_voter(request.voter_id, partition.voter_directory_id),
        last_epoch=partition.last_offset_epoch,
        last_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def _begin(
    request: begin_quorum_epoch.BeginQuorumEpochRequest, request_id: int
) -> core.BeginQuorumEpochRequest:
    partition = _only(request.topics, ErrorCode.INVALID_REQUEST)
    return core.BeginQuorumEpochRequest(
        request_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=_voter(request.voter_id, partition.voter_directory_id),
        leader_endpoints=_endpoints(request.leader_endpoints),
    )


def _end(request: end_quorum_epoch.EndQuorumEpochRequest, request_id: int) -> core.EndQuorumEpochRequest:
    partition = _only(request.topics, ErrorCode.INVALID_REQUEST)
    candidates = tuple(
        ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
    ) or tuple(ReplicaKey(node_id, ZERO_UUID) for node_id in partition.preferred_successors)
    return core.EndQuorumEpochRequest(
        request_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        preferred_candidates=candidates,
        leader_endpoints=_endpoints(request.leader_endpoints),
    )


def _fetch(request: fetch.FetchRequest, request_id: int) -> core.FetchRequest:
    topics = request.topics
    if not (
        len(topics) == 1
        and len(topics[0].partitions) == 1
        and (topics[0].topic == METADATA_TOPIC or topics[0].topic_id == METADATA_TOPIC_ID)
        and topics[0].partitions[0].partition == PARTITION
    ):
        raise Rejected(
            ErrorCode.INVALID_REQUEST, f"the request is not about {METADATA_TOPIC}-{PARTITION} only"
        )
    partition = topics[0].partitions[0]
    replica_id = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    return core.FetchRequest(
        request_id,
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(replica_id, partition.replica_directory_id),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=max(0, request.max_wait_ms),
    )


def _fetch_snapshot(
    request: fetch_snapshot.FetchSnapshotRequest, request_id: int
) -> core.FetchSnapshotRequest:
    partition = _only(request.topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return core.FetchSnapshotRequest(
        request_id,
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(request.replica_id, partition.replica_directory_id),
        snapshot_id=core.SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
    )


def _add_voter(request: add_raft_voter.AddRaftVoterRequest, request_id: int) -> core.AddVoterRequest:
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    return core.AddVoterRequest(
        request_id,
        Voter(key, _endpoints(request.listeners)),
        timeout_ms=request.timeout_ms,
        ack_when_committed=request.ack_when_committed,
    )


def _remove_voter(
    request: remove_raft_voter.RemoveRaftVoterRequest, request_id: int
) -> core.RemoveVoterRequest:
    return core.RemoveVoterRequest(request_id, ReplicaKey(request.voter_id, request.voter_directory_id))


def _update_voter(
    request: update_raft_voter.UpdateRaftVoterRequest, request_id: int
) -> core.UpdateVoterRequest:
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    versions = request.k_raft_version_feature
    return core.UpdateVoterRequest(
        request_id,
        epoch=request.current_leader_epoch,
        voter=Voter(
            key,
            _endpoints(request.listeners),
            KRaftVersions(versions.min_supported_version, versions.max_supported_version),
        ),
    )


def _endpoints(listed: Sequence[Any]) -> tuple[VoterEndpoint, ...]:
    return tuple(VoterEndpoint(each.name, each.host, each.port) for each in listed)


_READERS: dict[type, Callable[[Any, int], core.Request]] = {
    vote.VoteRequest: _vote,
    begin_quorum_epoch.BeginQuorumEpochRequest: _begin,
    end_quorum_epoch.EndQuorumEpochRequest: _end,
    fetch.FetchRequest: _fetch,
    fetch_snapshot.FetchSnapshotRequest: _fetch_snapshot,
    add_raft_voter.AddRaftVoterRequest: _add_voter,
    remove_raft_voter.RemoveRaftVoterRequest: _remove_voter,
    update_raft_voter.UpdateRaftVoterRequest: _update_voter,
}


# -- responses


def error_response(request: Request, error: ErrorCode, message: str | None = None) -> Any:
    """The response that rejects the whole request."""
    match request:
        case vote.VoteRequest():
            return vote.VoteResponse(error_code=error, topics=[])
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=error, topics=[])
        case end_quorum_epoch.EndQuorumEpochRequest():
            return end_quorum_epoch.EndQuorumEpochResponse(error_code=error, topics=[])
        case fetch.FetchRequest():
            return fetch.FetchResponse(error_code=error, responses=[])
        case fetch_snapshot.FetchSnapshotRequest():
            return fetch_snapshot.FetchSnapshotResponse(error_code=error, topics=[])
        case add_raft_voter.AddRaftVoterRequest():
            return add_raft_voter.AddRaftVoterResponse(error_code=error, error_message=message)
        case remove_raft_voter.RemoveRaftVoterRequest():
            return remove_raft_voter.RemoveRaftVoterResponse(error_code=error, error_message=message)
        case update_raft_voter.UpdateRaftVoterRequest():
            return update_raft_voter.UpdateRaftVoterResponse(error_code=error)


def write_response(request: Request, response: core.Response, *, version: int) -> Any:
    """Kafka's response for one of the core. Endpoints of the leader are left out of versions without them."""
    match request, response:
        case vote.VoteRequest(), core.VoteResponse():
            granted = vote.VoteResponsePartition(
                partition_index=PARTITION,
                error_code=response.error,
                leader_id=response.leader_id,
                leader_epoch=response.epoch,
                vote_granted=response.granted,
            )
            return vote.VoteResponse(
                topics=[vote.VoteResponseTopic(topic_name=METADATA_TOPIC, partitions=[granted])],
                node_endpoints=_nodes(vote.NodeEndpoint, response, is_known=version >= 1),
            )
        case begin_quorum_epoch.BeginQuorumEpochRequest(), core.BeginQuorumEpochResponse():
            begun = begin_quorum_epoch.BeginQuorumEpochResponsePartition(
                partition_index=PARTITION,
                error_code=response.error,
                leader_id=response.leader_id,
                leader_epoch=response.epoch,
            )
            return begin_quorum_epoch.BeginQuorumEpochResponse(
                topics=[
                    begin_quorum_epoch.BeginQuorumEpochResponseTopic(
                        topic_name=METADATA_TOPIC, partitions=[begun]
                    )
                ],
                node_endpoints=_nodes(begin_quorum_epoch.NodeEndpoint, response, is_known=version >= 1),
            )
        case end_quorum_epoch.EndQuorumEpochRequest(), core.EndQuorumEpochResponse():
            ended = end_quorum_epoch.EndQuorumEpochResponsePartition(
                partition_index=PARTITION,
                error_code=response.error,
                leader_id=response.leader_id,
                leader_epoch=response.epoch,
            )
            return end_quorum_epoch.EndQuorumEpochResponse(
                topics=[
                    end_quorum_epoch.EndQuorumEpochResponseTopic(
                        topic_name=METADATA_TOPIC, partitions=[ended]
                    )
                ],
                node_endpoints=_nodes(end_quorum_epoch.NodeEndpoint, response, is_known=version >= 1),
            )
        case fetch.FetchRequest(), core.FetchResponse():
            return _write_fetch(request, response, version)
        case add_raft_voter.AddRaftVoterRequest(), core.VoterChangeResponse():
            return add_raft_voter.AddRaftVoterResponse(
                error_code=response.error, error_message=response.message
            )
        case remove_raft_voter.RemoveRaftVoterRequest(), core.VoterChangeResponse():
            return remove_raft_voter.RemoveRaftVoterResponse(
                error_code=response.error, error_message=response.message
            )
        case update_raft_voter.UpdateRaftVoterRequest(), core.VoterChangeResponse():
            host, port = (response.leader.host, response.leader.port) if response.leader else ("", 0)
            return update_raft_voter.UpdateRaftVoterResponse(
                error_code=response.error,
                current_leader=update_raft_voter.CurrentLeader(
                    leader_id=response.leader_id, leader_epoch=response.epoch, host=host, port=port
                ),
            )
        case _:
            raise AssertionError(f"{type(response).__name__} is not a response to {type(request).__name__}")


def _write_fetch(
    request: fetch.FetchRequest, response: core.FetchResponse, version: int
) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        aborted_transactions=None,
        records=response.records,
    )
    if response.diverging_epoch is not None:
        end = response.diverging_epoch
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
    if response.snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(
            end_offset=response.snapshot_id.end_offset, epoch=response.snapshot_id.epoch
        )
    topic = fetch.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchResponse(
        responses=[topic], node_endpoints=_nodes(fetch.NodeEndpoint, response, is_known=version >= 16)
    )


def write_snapshot_piece(
    request: fetch_snapshot.FetchSnapshotRequest,
    response: core.FetchSnapshotResponse,
    *,
    version: int,
    size_bytes: int = 0,
    piece: Buffer = b"",
) -> fetch_snapshot.FetchSnapshotResponse:
    """A part of a snapshot of `size_bytes`, or the error of `response`."""
    asked = request.topics[0].partitions[0]
    partition = fetch_snapshot.FetchSnapshotResponsePartition(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=asked.snapshot_id,
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        size=size_bytes,
        position=asked.position,
        unaligned_records=piece,
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[fetch_snapshot.FetchSnapshotResponseTopic(name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(fetch_snapshot.NodeEndpoint, response, is_known=version >= 1),
    )


def _nodes(make: Callable[..., Any], response: Any, *, is_known: bool) -> list[Any]:
    leader: core.Peer | None = response.leader
    if leader is None or not is_known:
        return []
    return [make(node_id=leader.node_id, host=leader.host, port=leader.port)]
