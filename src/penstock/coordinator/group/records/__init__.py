"""The records of `__consumer_offsets`, in Kafka's own formats: by subject, a pair of classes for each type.

Records only say what happened; the part of `penstock.coordinator.group` that writes them knows what it means,
`penstock.coordinator.framing` how they stand in the log.
"""

from __future__ import annotations

from penstock.coordinator.group.records import classic, offsets

TYPES: tuple[tuple[type, type], ...] = (
    (offsets.LegacyOffsetCommitKey, offsets.LegacyOffsetCommitValue),
    (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
    (classic.GroupMetadataKey, classic.GroupMetadataValue),
)
"""Key and value, in the order of their numbers."""
