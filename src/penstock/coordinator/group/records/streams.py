"""Records of streams groups (KIP-1071)."""

from __future__ import annotations

from penstock.protocol.declare import field, record, struct
from penstock.protocol.types import Int8, Int16, Int32, Int64, UInt16


@record(key=17, versions=(0, 0))
class StreamsGroupMetadataKey:
    group_id: str


@struct
class LastAssignmentConfig:
    key: str
    value: str


@record(key=17, versions=(0, 0), flexible=0)
class StreamsGroupMetadataValue:
    """The group epoch. It changes with the members, the topics or the settings of the assignor."""

    epoch: Int32
    metadata_hash: Int64  # over the topics of the topology, see `topic_hash`
    validated_topology_epoch: Int32 = field(default=-1, tag=0)  # -1: none, see `configuring`
    last_assignment_configs: list[LastAssignmentConfig] | None = field(default=[], tag=1)


@record(key=19, versions=(0, 0))
class StreamsGroupMemberMetadataKey:
    group_id: str
    member_id: str


@struct
class Endpoint:
    host: str
    port: UInt16


@struct
class KeyValue:
    key: str
    value: str


@record(key=19, versions=(0, 0), flexible=0)
class StreamsGroupMemberMetadataValue:
    """The metadata of a member."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


@record(key=20, versions=(0, 0))
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str


@record(key=20, versions=(0, 0), flexible=0)
class StreamsGroupTargetAssignmentMetadataValue:
    """The group epoch of the target assignment, and when it was computed (KIP-1263)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, ignorable=True)


@record(key=21, versions=(0, 0))
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str


@struct
class TargetTaskIds:
    subtopology_id: str
    partitions: list[Int32]


@record(key=21, versions=(0, 0), flexible=0)
class StreamsGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    active_tasks: list[TargetTaskIds]
    standby_tasks: list[TargetTaskIds]
    warmup_tasks: list[TargetTaskIds]


@record(key=22, versions=(0, 0))
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str


@struct
class CurrentTaskIds:
    subtopology_id: str
    partitions: list[Int32]
    # One for each partition of active tasks, or empty if they are unknown.
    assignment_epochs: list[Int32] | None = field(default=[], tag=0)


@record(key=22, versions=(0, 0), flexible=0)
class StreamsGroupCurrentMemberAssignmentValue:
    """The current tasks of a member, and the tasks that it has to revoke."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[CurrentTaskIds]
    standby_tasks: list[CurrentTaskIds]
    warmup_tasks: list[CurrentTaskIds]
    active_tasks_pending_revocation: list[CurrentTaskIds]
    standby_tasks_pending_revocation: list[CurrentTaskIds]
    warmup_tasks_pending_revocation: list[CurrentTaskIds]


@record(key=23, versions=(0, 0))
class StreamsGroupTopologyKey:
    group_id: str


@struct
class TopicConfig:
    key: str
    value: str


@struct
class TopicInfo:
    name: str
    partitions: Int32  # 0: the coordinator decides; always for changelogs
    replication_factor: Int16  # 0: the broker's default
    topic_configs: list[TopicConfig]


@struct
class CopartitionGroup:
    """Indexes into the lists of the subtopology."""

    source_topics: list[Int16]
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


@record(key=23, versions=(0, 0), flexible=0)
class StreamsGroupTopologyValue:
    """The topology of the application, set by the first member."""

    epoch: Int32
    subtopologies: list[Subtopology]
