"""BeginQuorumEpoch (key 53): a new leader of the controller quorum notifies the voters of its election (KIP-595).

v1 is flexible; names voters by id and directory, and has the leader's endpoints in both directions (KIP-853).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, UInt16, Uuid


@struct
class BeginQuorumEpochRequestPartition:
    partition_index: Int32
    voter_directory_id: Uuid = field(since=1, default=ZERO_UUID, ignorable=True)
    leader_id: Int32
    leader_epoch: Int32


@struct
class BeginQuorumEpochRequestTopic:
    topic_name: str
    partitions: list[BeginQuorumEpochRequestPartition]


@struct
class LeaderEndpoint:
    name: str
    host: str
    port: UInt16


@request(key=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochRequest:
    cluster_id: str | None = None
    voter_id: Int32 = field(since=1, default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopic]
    leader_endpoints: list[LeaderEndpoint] = field(since=1, default=[], ignorable=True)


@struct
class BeginQuorumEpochResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    leader_id: Int32
    leader_epoch: Int32


@struct
class BeginQuorumEpochResponseTopic:
    topic_name: str
    partitions: list[BeginQuorumEpochResponsePartition]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(to=BeginQuorumEpochRequest)
class BeginQuorumEpochResponse:
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[BeginQuorumEpochResponseTopic]
    node_endpoints: list[NodeEndpoint] = field(since=1, default=[], tag=0)
