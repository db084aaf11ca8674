"""EndQuorumEpoch (key 54): a leader of the controller quorum resigns, and says who should follow it (KIP-595).

v1 is flexible; has preferred_candidates in place of preferred_successors; returns the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, UInt16, Uuid


@struct
class ReplicaInfo:
    candidate_id: Int32
    candidate_directory_id: Uuid


@struct
class EndQuorumEpochRequestPartition:
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32
    preferred_successors: list[Int32] = field(until=0, default=[], ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(since=1, default=[], ignorable=True)


@struct
class EndQuorumEpochRequestTopic:
    topic_name: str
    partitions: list[EndQuorumEpochRequestPartition]


@struct
class LeaderEndpoint:
    name: str
    host: str
    port: UInt16


@request(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochRequest:
    cluster_id: str | None = None
    topics: list[EndQuorumEpochRequestTopic]
    leader_endpoints: list[LeaderEndpoint] = field(since=1, default=[], ignorable=True)


@struct
class EndQuorumEpochResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    leader_id: Int32
    leader_epoch: Int32


@struct
class EndQuorumEpochResponseTopic:
    topic_name: str
    partitions: list[EndQuorumEpochResponsePartition]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(to=EndQuorumEpochRequest)
class EndQuorumEpochResponse:
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[EndQuorumEpochResponseTopic]
    node_endpoints: list[NodeEndpoint] = field(since=1, default=[], tag=0)
