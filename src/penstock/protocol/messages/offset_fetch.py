"""OffsetFetch (key 9): fetch the committed offsets of groups.

v0 read offsets from ZooKeeper.
v1 reads them from `__consumer_offsets`.
v2 takes None for all topics; returns an error_code for the whole group.
v3 returns throttle_time_ms.
v4 responds before throttling (KIP-219).
v5 returns committed_leader_epoch (KIP-320).
v6 is flexible.
v7 adds require_stable, which refuses offsets that a transaction may still change (KIP-447).
v8 asks for several groups at once (KIP-709).
v9 adds member_id and member_epoch, for consumer groups (KIP-848).
v10 names topics by id (KIP-848).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Int64, Uuid


@struct
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestTopics:
    name: str = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    group_id: str
    member_id: str | None = field(since=9, default=None, ignorable=True)
    member_epoch: Int32 = field(since=9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None  # None: all topics


@request(key=9, versions=(0, 10), flexible=6)
class OffsetFetchRequest:
    group_id: str = field(until=7, default="")
    # None: all topics.
    topics: list[OffsetFetchRequestTopic] | None = field(until=7, default=[], nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(since=8, default=[])
    require_stable: bool = field(since=7, default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64  # -1 if there is none
    committed_leader_epoch: Int32 = field(since=5, default=-1, ignorable=True)
    metadata: str | None
    error_code: ErrorCode = ErrorCode.NONE


@struct
class OffsetFetchResponseTopic:
    name: str
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64  # -1 if there is none
    committed_leader_epoch: Int32 = -1
    metadata: str | None
    error_code: ErrorCode = ErrorCode.NONE


@struct
class OffsetFetchResponseTopics:
    name: str = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: ErrorCode = ErrorCode.NONE


@response(to=OffsetFetchRequest)
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(until=7, default=[])
    error_code: ErrorCode = field(since=2, until=7, default=ErrorCode.NONE, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(since=8, default=[])
