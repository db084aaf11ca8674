"""Records of consumer groups (KIP-848)."""

from __future__ import annotations

from penstock.protocol.declare import field, record, struct
from penstock.protocol.types import Int8, Int32, Int64, Uuid


@record(key=3, versions=(0, 0))
class ConsumerGroupMetadataKey:
    group_id: str


@record(key=3, versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue:
    """The group epoch. It changes with the members, their subscriptions or the topics."""

    epoch: Int32
    metadata_hash: Int64 = field(default=0, tag=0)  # over the subscribed topics (KIP-1101)


@record(key=4, versions=(0, 0))
class ConsumerGroupPartitionMetadataKey:
    group_id: str


@struct
class PartitionMetadata:
    partition: Int32
    racks: list[str]


@struct
class TopicMetadata:
    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


@record(key=4, versions=(0, 0), flexible=0)
class ConsumerGroupPartitionMetadataValue:
    """The subscribed topics, written by Kafka 4.0; `metadata_hash` has replaced it."""

    topics: list[TopicMetadata]


@record(key=5, versions=(0, 0))
class ConsumerGroupMemberMetadataKey:
    group_id: str
    member_id: str


@struct
class ClassicProtocol:
    name: str
    metadata: bytes  # a ConsumerProtocolSubscription after its version


@struct
class ClassicMemberMetadata:
    """Only for members that use the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default=[])


@record(key=5, versions=(0, 0), flexible=0)
class ConsumerGroupMemberMetadataValue:
    """The metadata of a member."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None
    # None for a member with the consumer protocol. It must be written: to Kafka, an absent field is an empty struct.
    classic_member_metadata: ClassicMemberMetadata | None = field(default=ClassicMemberMetadata(), tag=0)


@record(key=6, versions=(0, 0))
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str


@record(key=6, versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch of the target assignment, and when it was computed (KIP-1263)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0)


@record(key=7, versions=(0, 0))
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str


@struct
class TargetTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@record(key=7, versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: list[TargetTopicPartitions]


@record(key=8, versions=(0, 0))
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str


@struct
class OwnedTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]
    # One for each partition (KIP-1251), or empty if they are unknown.
    assignment_epochs: list[Int32] | None = field(default=[], tag=0)


@record(key=8, versions=(0, 0), flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a member, and the partitions that it has to revoke."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[OwnedTopicPartitions]
    partitions_pending_revocation: list[OwnedTopicPartitions]


@record(key=16, versions=(0, 0))
class ConsumerGroupRegularExpressionKey:
    group_id: str
    regular_expression: str


@record(key=16, versions=(0, 0), flexible=0)
class ConsumerGroupRegularExpressionValue:
    """The topics that matched a regular expression, at which metadata offset, and when."""

    topics: list[str]
    version: Int64
    timestamp: Int64
