"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch of a partition.

With it a follower or consumer finds where its log diverges from the leader's.

v1 returns leader_epoch, the largest that is not above the requested one (KIP-279).
v2 adds current_leader_epoch, for fencing; returns throttle_time_ms (KIP-320).
v3 adds replica_id (KIP-392).
v4 is flexible.

Kafka 4.0 dropped v0 and v1.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = field(since=2, default=-1, ignorable=True)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: str
    partitions: list[OffsetForLeaderPartition]


@request(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = field(since=3, default=-2, ignorable=True)  # -1 a consumer, -2 a debugging consumer
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: ErrorCode = ErrorCode.NONE
    partition: Int32
    leader_epoch: Int32 = field(since=1, default=-1, ignorable=True)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: str
    partitions: list[EpochEndOffset]


@response(to=OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
