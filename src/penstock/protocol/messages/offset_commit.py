"""OffsetCommit (key 8): commit the offsets of a group.

v1 adds generation_id_or_member_epoch and member_id, and a commit_timestamp for each partition.
v2 replaces commit_timestamp by one retention_time_ms for all.
v3 returns throttle_time_ms.
v4 responds before throttling (KIP-219).
v5 drops retention_time_ms: the broker's setting decides (KIP-211).
v6 adds committed_leader_epoch (KIP-320).
v7 adds group_instance_id (KIP-345).
v8 is flexible.
v9 serves consumer groups too, with a member epoch in place of a generation (KIP-848).
v10 names topics by id (KIP-848).

Kafka 4.0 dropped v0 and v1.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Int64, Uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=6, default=-1, ignorable=True)
    commit_timestamp: Int64 = field(since=1, until=1, default=-1)
    committed_metadata: str | None


@struct
class OffsetCommitRequestTopic:
    name: str = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@request(key=8, versions=(0, 10), flexible=8)
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: Int32 = field(since=1, default=-1, ignorable=True)
    member_id: str = field(since=1, default="", ignorable=True)
    group_instance_id: str | None = field(since=7, default=None)
    retention_time_ms: Int64 = field(since=2, until=4, default=-1, ignorable=True)  # -1: the broker's setting
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class OffsetCommitResponseTopic:
    name: str = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


@response(to=OffsetCommitRequest)
class OffsetCommitResponse:
    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
