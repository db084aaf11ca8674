"""StreamsGroupDescribe (key 89): the state, topology, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64, UInt16


@request(key=89, versions=(0, 0), flexible=0)
class StreamsGroupDescribeRequest:
    group_ids: list[str]
    include_authorized_operations: bool


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
class Subtopology:
    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology] | None = None


@struct
class Endpoint:
    host: str
    port: UInt16


@struct
class TaskOffset:
    subtopology_id: str
    partition: Int32
    offset: Int64


@struct
class TaskIds:
    subtopology_id: str
    partitions: list[Int32]


@struct
class Assignment:
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@struct
class Member:
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    topology_epoch: Int32
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool


@struct
class DescribedGroup:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: Int32 = -(2**31)  # a bit for each operation; the default: not requested


@response(to=StreamsGroupDescribeRequest)
class StreamsGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
