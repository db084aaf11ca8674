"""Fetch (key 1): read batches of records from partitions; for consumers and followers.

The broker waits until `min_bytes` are available or `max_wait_ms` have passed. The first batch of the first
partition that has one is returned whole, however small the limits are: a reader always makes progress (KIP-74).

v1 returns throttle_time_ms.
v2 may return message set v1.
v3 adds max_bytes; from here on the order of partitions matters.
v4 adds isolation_level; returns last_stable_offset and aborted_transactions; returns batch format v2.
v5 adds log_start_offset, both ways.
v6 may return KAFKA_STORAGE_ERROR.
v7 adds incremental sessions: session_id, session_epoch, forgotten_topics_data (KIP-227).
v8 responds before throttling (KIP-219).
v9 fences by current_leader_epoch (KIP-320).
v10 may return zstd (KIP-110).
v11 lets consumers read from a follower: adds rack_id, returns preferred_read_replica (KIP-392).
v12 is flexible, and finds diverging logs: last_fetched_epoch, diverging_epoch, snapshot_id (KIP-595).
v13 names topics by id (KIP-516).
v14 may return OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
v15 moves replica_id into replica_state, with the replica's epoch (KIP-903).
v16 returns node_endpoints (KIP-951).
v17 adds replica_directory_id (KIP-853).
v18 adds the follower's high_watermark (KIP-1166).

Kafka 4.0 dropped v0 to v3.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int8, Int32, Int64, Records, Uuid


@struct
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32
    current_leader_epoch: Int32 = field(since=9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(since=12, default=-1)  # the epoch of a follower's last record
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)  # a follower's
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(since=17, default=ZERO_UUID, tag=0, ignorable=True)
    # The default means unknown.
    high_watermark: Int64 = field(since=18, default=2**63 - 1, tag=1, ignorable=True)


@struct
class FetchTopic:
    topic: str = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: str = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


@request(key=1, versions=(0, 18), flexible=12)
class FetchRequest:
    cluster_id: str | None = field(since=12, default=None, tag=0, ignorable=True)
    replica_id: Int32 = field(until=14, default=-1)  # -1 for a consumer
    replica_state: ReplicaState = field(since=15, default=ReplicaState(), tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(since=3, default=2**31 - 1, ignorable=True)
    isolation_level: Int8 = field(since=4, default=0, ignorable=True)  # 0 read uncommitted, 1 read committed
    session_id: Int32 = field(since=7, default=0, ignorable=True)
    # 0 opens a session, -1 is none or ends one.
    session_epoch: Int32 = field(since=7, default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(since=7, default=[])
    rack_id: str = field(since=11, default="", ignorable=True)


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: Int64
    last_stable_offset: Int64 = field(since=4, default=-1, ignorable=True)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(since=12, default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = field(since=12, default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = field(since=12, default=SnapshotId(), tag=2)
    # None for read uncommitted.
    aborted_transactions: list[AbortedTransaction] | None = field(since=4, default=[], ignorable=True)
    preferred_read_replica: Int32 = field(since=11, default=-1)  # -1: read here
    records: Records | None


@struct
class FetchableTopicResponse:
    topic: str = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(to=FetchRequest)
class FetchResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: ErrorCode = field(since=7, default=ErrorCode.NONE, ignorable=True)
    session_id: Int32 = field(since=7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(since=16, default=[], tag=0)
