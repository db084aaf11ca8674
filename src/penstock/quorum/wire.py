"""The quorum's own requests: from messages of the core to Kafka's, and the responses back.

`wire_serving` translates the requests of other nodes. All of Kafka's messages have a list of topics; only
`__cluster_metadata-0` is ever in it. A response with another content is `UnexpectedResponse`: the other node is not
what it claims to be.

A node alone sends and gets no such requests, so this module and `wire_serving` are imported with the first one: their
ten message modules would delay its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.metadata.features import KRAFT_VERSION
from penstock.metadata.names import METADATA_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from penstock.protocol.types import METADATA_TOPIC_ID
from penstock.quorum import messages as core
from penstock.quorum.peers import Sender
from penstock.quorum.voters import KRaftVersions, ReplicaKey

PARTITION = 0


class UnexpectedResponse(Exception):
    """The response does not fit the request."""


# -- requests


def encode_request(request: core.Request, sender: Sender, receiver: core.Peer) -> Any:
    """Kafka's request for one of the core."""
    return _ENCODERS[type(request)](request, sender, receiver)


def _vote(request: core.VoteRequest, sender: Sender, receiver: core.Peer) -> vote.VoteRequest:
    voter = request.voter or ReplicaKey(receiver.node_id)
    partition = vote.VoteRequestPartition(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.VoteRequestTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=sender.cluster_id, voter_id=voter.node_id, topics=[topic])


def _begin_quorum_epoch(
    request: core.BeginQuorumEpochRequest, sender: Sender, receiver: core.Peer
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    voter = request.voter or ReplicaKey(receiver.node_id)
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartition(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        voter_id=voter.node_id,
        topics=[topic],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=each.listener, host=each.host, port=each.port)
            for each in request.leader_endpoints
        ],
    )


def _end_quorum_epoch(
    request: core.EndQuorumEpochRequest, sender: Sender, receiver: core.Peer
) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.EndQuorumEpochRequestPartition(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[each.node_id for each in request.preferred_candidates],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=each.node_id, candidate_directory_id=each.directory_id)
            for each in request.preferred_candidates
        ],
    )
    topic = end_quorum_epoch.EndQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        topics=[topic],
        leader_endpoints=[
            end_quorum_epoch.LeaderEndpoint(name=each.listener, host=each.host, port=each.port)
            for each in request.leader_endpoints
        ],
    )


def _fetch(request: core.FetchRequest, sender: Sender, receiver: core.Peer) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=sender.fetch_bytes_max,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=sender.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.node_id, replica_epoch=-1),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=sender.fetch_bytes_max,
        topics=[fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(
    request: core.FetchSnapshotRequest, sender: Sender, receiver: core.Peer
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotRequestPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=request.snapshot_id.end_offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=sender.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=sender.snapshot_bytes_max,
        topics=[fetch_snapshot.FetchSnapshotRequestTopic(name=METADATA_TOPIC, partitions=[partition])],
    )


def _add_voter(
    request: core.AddVoterRequest, sender: Sender, receiver: core.Peer
) -> add_raft_voter.AddRaftVoterRequest:
    key = request.voter.key
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=sender.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=key.node_id,
        voter_directory_id=key.directory_id,
        listeners=[
            add_raft_voter.Listener(name=each.listener, host=each.host, port=each.port)
            for each in request.voter.endpoints
        ],
        ack_when_committed=request.ack_when_committed,
    )


def _remove_voter(
    request: core.RemoveVoterRequest, sender: Sender, receiver: core.Peer
) -> remove_raft_voter.RemoveRaftVoterRequest:
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=sender.cluster_id,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
    )


def _update_voter(
    request: core.UpdateVoterRequest, sender: Sender, receiver: core.Peer
) -> update_raft_voter.UpdateRaftVoterRequest:
    voter = request.voter
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=sender.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.node_id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            update_raft_voter.Listener(name=each.listener, host=each.host, port=each.port)
            for each in voter.endpoints
        ],
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.kraft_versions.lowest,
            max_supported_version=voter.kraft_versions.highest,
        ),
    )


def _api_versions(
    request: core.ApiVersionsRequest, sender: Sender, receiver: core.Peer
) -> api_versions.ApiVersionsRequest:
    return api_versions.ApiVersionsRequest(client_software_name="penstock", client_software_version="1")


_ENCODERS: dict[type, Callable[[Any, Sender, core.Peer], Any]] = {
    core.VoteRequest: _vote,
    core.BeginQuorumEpochRequest: _begin_quorum_epoch,
    core.EndQuorumEpochRequest: _end_quorum_epoch,
    core.FetchRequest: _fetch,
    core.FetchSnapshotRequest: _fetch_snapshot,
    core.AddVoterRequest: _add_voter,
    core.RemoveVoterRequest: _remove_voter,
    core.UpdateVoterRequest: _update_voter,
    core.ApiVersionsRequest: _api_versions,
}


# -- responses


class _Endpoint(Protocol):
    node_id: int
    host: str
    port: int


def decode_response(request: core.Request, response: Any) -> core.Response:
    """The core's message for the response to one of its requests. Raises UnexpectedResponse."""
    return _DECODERS[type(response)](request, response)


def _leader(endpoints: Sequence[_Endpoint], leader_id: int) -> core.Peer | None:
    for each in endpoints:
        if each.node_id == leader_id:
            return core.Peer(each.node_id, each.host, each.port)
    return None


def _only(items: Sequence[Any]) -> Any:
    """The partition of a list of topics with one partition."""
    if len(items) != 1 or len(items[0].partitions) != 1:
        raise UnexpectedResponse("the response is not about one partition")
    return items[0].partitions[0]


def _vote_response(request: core.Request, response: vote.VoteResponse) -> core.VoteResponse:
    if response.error_code != ErrorCode.NONE:
        return core.VoteResponse(request.request_id, response.error_code, -1, core.NO_NODE)
    partition = _only(response.topics)
    return core.VoteResponse(
        request.request_id,
        partition.error_code,
        partition.leader_epoch,
        partition.leader_id,
        _leader(response.node_endpoints, partition.leader_id),
        granted=partition.vote_granted,
    )


def _begin_response(
    request: core.Request, response: begin_quorum_epoch.BeginQuorumEpochResponse
) -> core.BeginQuorumEpochResponse:
    if response.error_code != ErrorCode.NONE:
        return core.BeginQuorumEpochResponse(request.request_id, response.error_code, -1, core.NO_NODE)
    partition = _only(response.topics)
    return core.BeginQuorumEpochResponse(
        request.request_id,
        partition.error_code,
        partition.leader_epoch,
        partition.leader_id,
        _leader(response.node_endpoints, partition.leader_id),
    )


def _end_response(
    request: core.Request, response: end_quorum_epoch.EndQuorumEpochResponse
) -> core.EndQuorumEpochResponse:
    if response.error_code != ErrorCode.NONE:
        return core.EndQuorumEpochResponse(request.request_id, response.error_code, -1, core.NO_NODE)
    partition = _only(response.topics)
    return core.EndQuorumEpochResponse(
        request.request_id,
        partition.error_code,
        partition.leader_epoch,
        partition.leader_id,
        _leader(response.node_endpoints, partition.leader_id),
    )


def _fetch_response(request: core.Request, response: fetch.FetchResponse) -> core.FetchResponse:
    if response.error_code != ErrorCode.NONE:
        return core.FetchResponse(request.request_id, response.error_code, -1, core.NO_NODE)
    partition = _only(response.responses)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    leader = partition.current_leader
    return core.FetchResponse(
        request.request_id,
        partition.error_code,
        leader.leader_epoch,
        leader.leader_id,
        _leader(response.node_endpoints, leader.leader_id),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=core.OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        if diverging.end_offset >= 0
        else None,
        snapshot_id=core.SnapshotId(snapshot.end_offset, snapshot.epoch)
        if snapshot.end_offset >= 0
        else None,
        # The buffer of the connection is used again; the log is written later.
        records=bytes(partition.records) if partition.records is not None else b"",
    )


def _fetch_snapshot_response(
    request: core.Request, response: fetch_snapshot.FetchSnapshotResponse
) -> core.FetchSnapshotResponse:
    if response.error_code != ErrorCode.NONE:
        return core.FetchSnapshotResponse(request.request_id, response.error_code, -1, core.NO_NODE)
    partition = _only(response.topics)
    leader = partition.current_leader
    return core.FetchSnapshotResponse(
        request.request_id,
        partition.error_code,
        leader.leader_epoch,
        leader.leader_id,
        _leader(response.node_endpoints, leader.leader_id),
    )


def _voter_response(
    request: core.Request,
    response: add_raft_voter.AddRaftVoterResponse | remove_raft_voter.RemoveRaftVoterResponse,
) -> core.VoterChangeResponse:
    return core.VoterChangeResponse(
        request.request_id, response.error_code, -1, core.NO_NODE, message=response.error_message
    )


def _update_response(
    request: core.Request, response: update_raft_voter.UpdateRaftVoterResponse
) -> core.VoterChangeResponse:
    leader = response.current_leader
    peer = core.Peer(leader.leader_id, leader.host, leader.port) if leader.host else None
    return core.VoterChangeResponse(
        request.request_id, response.error_code, leader.leader_epoch, leader.leader_id, peer
    )


def _api_versions_response(
    request: core.Request, response: api_versions.ApiVersionsResponse
) -> core.ApiVersionsResponse:
    versions = None
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION:
            versions = KRaftVersions(feature.min_version, feature.max_version)
    return core.ApiVersionsResponse(request.request_id, response.error_code, versions)


_DECODERS: dict[type, Callable[[core.Request, Any], core.Response]] = {
    vote.VoteResponse: _vote_response,
    begin_quorum_epoch.BeginQuorumEpochResponse: _begin_response,
    end_quorum_epoch.EndQuorumEpochResponse: _end_response,
    fetch.FetchResponse: _fetch_response,
    fetch_snapshot.FetchSnapshotResponse: _fetch_snapshot_response,
    add_raft_voter.AddRaftVoterResponse: _voter_response,
    remove_raft_voter.RemoveRaftVoterResponse: _voter_response,
    update_raft_voter.UpdateRaftVoterResponse: _update_response,
    api_versions.ApiVersionsResponse: _api_versions_response,
}
