"""DescribeQuorum (key 55): the controller quorum's leader, voters and observers, and how far each is (KIP-595).

v1 returns last_fetch_timestamp and last_caught_up_timestamp (KIP-836).
v2 returns error_message, directories and the nodes' listeners (KIP-853).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Int64, UInt16, Uuid


@struct
class DescribeQuorumRequestPartition:
    partition_index: Int32


@struct
class DescribeQuorumRequestTopic:
    topic_name: str
    partitions: list[DescribeQuorumRequestPartition]


@request(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    topics: list[DescribeQuorumRequestTopic]


@struct
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Uuid = field(since=2, default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field(since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field(since=1, default=-1, ignorable=True)


@struct
class DescribeQuorumResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = field(since=2, default=None, ignorable=True)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@struct
class DescribeQuorumResponseTopic:
    topic_name: str
    partitions: list[DescribeQuorumResponsePartition]


@struct
class Listener:
    name: str
    host: str
    port: UInt16


@struct
class Node:
    node_id: Int32
    listeners: list[Listener]


@response(to=DescribeQuorumRequest)
class DescribeQuorumResponse:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = field(since=2, default=None, ignorable=True)
    topics: list[DescribeQuorumResponseTopic]
    nodes: list[Node] = field(since=2, default=[])
