"""Vote (key 52): a member of the controller quorum asks for a vote (KIP-595).

v1 names voters by id and directory; returns the leader's endpoint (KIP-853).
v2 adds pre_vote, which asks without raising the epoch (KIP-996).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Int64, UInt16, Uuid


@struct
class VoteRequestPartition:
    partition_index: Int32
    replica_epoch: Int32
    replica_id: Int32
    replica_directory_id: Uuid = field(since=1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: Uuid = field(since=1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: Int32
    last_offset: Int64
    pre_vote: bool = field(since=2, default=False)


@struct
class VoteRequestTopic:
    topic_name: str
    partitions: list[VoteRequestPartition]


@request(key=52, versions=(0, 2), flexible=0)
class VoteRequest:
    cluster_id: str | None = None
    voter_id: Int32 = field(since=1, default=-1, ignorable=True)
    topics: list[VoteRequestTopic]


@struct
class VoteResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: bool


@struct
class VoteResponseTopic:
    topic_name: str
    partitions: list[VoteResponsePartition]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(to=VoteRequest)
class VoteResponse:
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[VoteResponseTopic]
    node_endpoints: list[NodeEndpoint] = field(since=1, default=[], tag=0)
