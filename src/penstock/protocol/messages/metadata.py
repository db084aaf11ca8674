"""Metadata (key 3): the brokers, topics and partition leaders.

In v0 an empty list of topics means all of them; from v1 on None does, and an empty list means none.

v1 returns rack, controller_id and is_internal.
v2 returns cluster_id.
v3 returns throttle_time_ms.
v4 adds allow_auto_topic_creation.
v5 returns offline_replicas.
v6 responds before throttling (KIP-219).
v7 returns leader_epoch (KIP-320).
v8 can return authorized operations (KIP-430).
v9 is flexible.
v10 returns topic_id; requests by topic_id need v12 (KIP-516).
v11 leaves the cluster's authorized operations to DescribeCluster (KIP-700).
v12 can request topics by topic_id alone.
v13 returns an error_code for the whole response, to send clients back to their bootstrap servers (KIP-1102).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Uuid


@struct
class MetadataRequestTopic:
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    name: str | None = field(nullable_since=10)


@request(key=3, versions=(0, 13), flexible=9)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: bool = field(since=4, default=True)
    include_cluster_authorized_operations: bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: bool = field(since=8, default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = field(since=1, default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: ErrorCode = ErrorCode.NONE
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(since=7, default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field(since=5, default=[], ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: ErrorCode = ErrorCode.NONE
    name: str | None = field(nullable_since=12)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = field(since=1, default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    # A bit for each operation; the default: not requested.
    topic_authorized_operations: Int32 = field(since=8, default=-(2**31))


@response(to=MetadataRequest)
class MetadataResponse:
    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field(since=2, default=None, ignorable=True)
    controller_id: Int32 = field(since=1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    # A bit for each operation; the default: not requested.
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=-(2**31))
    error_code: ErrorCode = field(since=13, default=ErrorCode.NONE, ignorable=True)
