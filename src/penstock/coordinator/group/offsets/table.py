"""Committed offsets by group, topic and partition: the newest and the replicated version.

Only replay changes the table. A group or topic without offsets is absent. The values are those of the records, because
there may be millions of them; they must not be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.coordinator.group.records.offsets import OffsetCommitValue
from penstock.coordinator.timeline import Timeline, TimelineMap

ByPartition = TimelineMap[int, OffsetCommitValue]
ByTopic = TimelineMap[str, ByPartition]


class OffsetTable:
    __slots__ = ("_groups", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._groups: TimelineMap[str, ByTopic] = TimelineMap(timeline)

    # -- newest state, for decisions

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        """By topic and partition. A view, which changes."""
        return self._groups.get(group_id, {})

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Group id, partition and offset, of every group that has offsets of the topic."""
        for group_id, topics in self._groups.items():
            for partition, stored in topics.get(topic, {}).items():
                yield group_id, partition, stored

    # -- replicated state, for queries

    def committed(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.committed(group_id)
        partitions = None if topics is None else topics.committed(topic)
        return None if partitions is None else partitions.committed(partition)

    def committed_of_group(self, group_id: str) -> dict[str, dict[int, OffsetCommitValue]]:
        topics = self._groups.committed(group_id)
        if topics is None:
            return {}
        return {topic: partitions.committed_items() for topic, partitions in topics.committed_items().items()}

    # -- replay

    def put(self, group_id: str, topic: str, partition: int, stored: OffsetCommitValue) -> None:
        self.put_all(group_id, topic, {partition: stored})

    def put_all(self, group_id: str, topic: str, stored: Mapping[int, OffsetCommitValue]) -> None:
        """By partition."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = TimelineMap(self._timeline)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = TimelineMap(self._timeline)
        partitions.put_all(stored)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partition not in partitions:
            return
        # An empty map is removed but not reused: queries of replicated state may still read it.
        del partitions[partition]
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]
