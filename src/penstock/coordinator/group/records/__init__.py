"""The records of `__consumer_offsets`, in Kafka's formats: a key and a value class for each type.

`penstock.coordinator.serde` encodes them.
"""

from __future__ import annotations

from penstock.coordinator.group.records import classic, consumer, offsets, streams
from penstock.coordinator.serde import BlockWriter, Writer

TYPES: tuple[tuple[type, type], ...] = (
    (offsets.LegacyOffsetCommitKey, offsets.LegacyOffsetCommitValue),
    (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
    (classic.GroupMetadataKey, classic.GroupMetadataValue),
    (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
    (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
    (consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
    (consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    (streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
    (streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue),
    (streams.StreamsGroupTargetAssignmentMetadataKey, streams.StreamsGroupTargetAssignmentMetadataValue),
    (streams.StreamsGroupTargetAssignmentMemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
    (streams.StreamsGroupCurrentMemberAssignmentKey, streams.StreamsGroupCurrentMemberAssignmentValue),
    (streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
)
"""Key and value, in the order of their numbers."""

WRITERS: dict[type, Writer] = {
    offsets.OffsetCommitKey: offsets.write_key,
    offsets.OffsetCommitValue: offsets.write_value,
}
"""Fast writers for frequent records."""

BLOCKS: dict[type, BlockWriter] = {offsets.OffsetCommitKeys: offsets.write_block}
"""Writers of many records at once."""
