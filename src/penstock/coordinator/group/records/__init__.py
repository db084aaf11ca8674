"""The records of `__consumer_offsets`, in Kafka's own formats: by subject, a pair of classes for each type.

Records only say what happened; the part of `penstock.coordinator.group` that writes them knows what it means,
`penstock.coordinator.framing` how they stand in the log.
"""

from __future__ import annotations

from penstock.coordinator.framing import BlockWriter, Writer
from penstock.coordinator.group.records import classic, consumer, offsets, streams

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
"""For what is written often."""

BLOCKS: dict[type, BlockWriter] = {offsets.OffsetCommitKeys: offsets.write_block}
"""For what is written by the dozen."""
