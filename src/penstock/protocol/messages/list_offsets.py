"""ListOffsets (key 2): find the offset that belongs to a timestamp, or to one end of a partition.

Special timestamps: -1 latest, -2 earliest, -3 the record with the greatest timestamp, -4 earliest on the broker's
own disk, -5 the newest that was tiered, -6 the earliest that still waits to be tiered.

v0 returns up to max_num_offsets segment boundaries (old_style_offsets).
v1 returns one offset and its timestamp.
v2 adds isolation_level; returns throttle_time_ms.
v3 responds before throttling (KIP-219).
v4 adds current_leader_epoch; returns leader_epoch (KIP-320).
v5 may return OFFSET_NOT_AVAILABLE.
v6 is flexible.
v7 takes timestamp -3 (KIP-734).
v8 takes timestamp -4 (KIP-405).
v9 takes timestamp -5 (KIP-1005).
v10 adds timeout_ms, for lookups in tiered storage (KIP-1075).
v11 takes timestamp -6 (KIP-1023).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32, Int64


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Int32 = field(since=4, default=-1, ignorable=True)
    timestamp: Int64
    max_num_offsets: Int32 = field(until=0, default=1)


@struct
class ListOffsetsTopic:
    name: str
    partitions: list[ListOffsetsPartition]


@request(key=2, versions=(0, 11), flexible=6)
class ListOffsetsRequest:
    replica_id: Int32  # -1 for a consumer
    isolation_level: Int8 = field(since=2, default=0)  # 0 read uncommitted, 1 read committed
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field(since=10, default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    old_style_offsets: list[Int64] = field(until=0, default=[])
    timestamp: Int64 = field(since=1, default=-1)
    offset: Int64 = field(since=1, default=-1)  # -1 if there is none
    leader_epoch: Int32 = field(since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str
    partitions: list[ListOffsetsPartitionResponse]


@response(to=ListOffsetsRequest)
class ListOffsetsResponse:
    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
