"""Offsets by group, topic and partition, as they are and as they are committed.

It knows nothing of groups or requests: only the replay of `Offsets` changes it, and everybody else reads. A group or
topic without offsets is not in it. What it holds are the values of the records themselves, because there may be
millions: nobody may change one.
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

    # -- as it is, for decisions

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        """By topic and partition. Not to be kept: it changes."""
        return self._groups.get(group_id, {})

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Of every group that has some: its id, the partition and what is stored."""
        for group_id, topics in self._groups.items():
            for partition, stored in topics.get(topic, {}).items():
                yield group_id, partition, stored

    # -- as it is committed, for questions from outside

    def committed(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.committed(group_id)
        partitions = None if topics is None else topics.committed(topic)
        return None if partitions is None else partitions.committed(partition)

    def committed_of_group(self, group_id: str) -> dict[str, dict[int, OffsetCommitValue]]:
        topics = self._groups.committed(group_id)
        if topics is None:
            return {}
        return {topic: partitions.committed_items() for topic, partitions in topics.committed_items().items()}

    def committed_groups(self) -> list[str]:
        return list(self._groups.committed_items())

    # -- for replay alone

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
        # What becomes empty is not used again: whoever asks for committed state still finds it in there.
        del partitions[partition]
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]
