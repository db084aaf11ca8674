"""StreamsGroupHeartbeat (key 88): a member of a streams group joins with its topology, stays alive, and leaves
(KIP-1071).

`member_epoch` 0 joins, -1 leaves, -2 leaves temporarily. Between full heartbeats, None means that nothing changed.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int16, Int32, Int64, UInt16


@struct
class KeyValue:
    key: str
    value: str


@struct
class TopicInfo:
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    source_topics: list[Int16]  # indexes into the subtopology's lists
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@struct
class TaskIds:
    subtopology_id: str
    partitions: list[Int32]


@struct
class Endpoint:
    host: str
    port: UInt16


@struct
class TaskOffset:
    subtopology_id: str
    partition: Int32
    offset: Int64


@request(key=88, versions=(0, 0), flexible=0)
class StreamsGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


@struct
class Status:
    # 0 stale topology, 1 missing sources, 2 wrong partitions, 3 missing internals, 4 shutdown, 5 delayed.
    status_code: Int8
    status_detail: str


@struct
class TopicPartition:
    topic: str
    partitions: list[Int32]


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@response(to=StreamsGroupHeartbeatRequest)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
