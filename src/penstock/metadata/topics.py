"""Builds the topics of the next image.

Partitions of changed topics are lists until `finish`. Names and ids are copied only if a topic was created or deleted;
a change of leaders copies one dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.metadata.delta import TopicDelta
from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.image import PartitionImage, TopicImage, TopicsImage
from penstock.metadata.names import unified_name
from penstock.protocol.types import Uuid, uuid_text


class TopicsBuilder:
    def __init__(self, before: TopicsImage) -> None:
        self._before = before
        self._created: dict[Uuid, str] = {}
        self._created_ids: dict[str, Uuid] = {}
        """By name: the last topic that was created with it."""
        self._deleted: set[Uuid] = set()
        self._partitions: dict[Uuid, list[PartitionImage]] = {}
        """The partitions of changed topics that are not deleted."""
        self._changed: dict[Uuid, set[int]] = {}
        """The changed partitions of every changed topic, in the order of the first change."""

    def create(self, name: str, topic_id: Uuid) -> None:
        if topic_id in self._created or topic_id in self._before.names_by_id:
            raise CorruptMetadata(f"topic {name} is created with the id of another topic")
        self._created[topic_id] = name
        self._created_ids[name] = topic_id
        self._partitions[topic_id] = []
        self._changed[topic_id] = set()

    def delete(self, topic_id: Uuid) -> str:
        name = self._name(topic_id)
        self._deleted.add(topic_id)
        self._partitions.pop(topic_id, None)
        self._changed.setdefault(topic_id, set())
        return name

    def partition(self, topic_id: Uuid, index: int) -> PartitionImage:
        partitions = self._touch(topic_id)
        if not 0 <= index < len(partitions):
            raise CorruptMetadata(f"topic {self._name(topic_id)} has no partition {index}")
        return partitions[index]

    def put_partition(self, topic_id: Uuid, index: int, partition: PartitionImage) -> None:
        partitions = self._touch(topic_id)
        if index == len(partitions):
            partitions.append(partition)
        elif 0 <= index < len(partitions):
            partitions[index] = partition
        else:
            raise CorruptMetadata(
                f"partition {index} of topic {self._name(topic_id)} is created after only {len(partitions)} others"
            )
        self._changed[topic_id].add(index)

    def clear_eligible_leaders(self, name: str) -> None:
        """Of one topic, or of all topics if the name is empty."""
        for topic_id in self._with_name(name) if name else [*self._before.names_by_id, *self._created]:
            if topic_id in self._deleted:
                continue
            for index, partition in enumerate(self._current(topic_id)):
                if partition.eligible_leaders or partition.last_known_leaders:
                    cleared = replace(
                        partition,
                        eligible_leaders=(),
                        last_known_leaders=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )
                    self.put_partition(topic_id, index, cleared)

    def finish(self) -> tuple[TopicsImage, dict[Uuid, TopicDelta]]:
        before = self._before
        if not self._changed:
            return before, {}
        by_name = dict(before.by_name)
        deltas: dict[Uuid, TopicDelta] = {}
        # Deletions first, because a new topic may have the same name.
        for topic_id in self._deleted:
            if topic_id in before.names_by_id:
                del by_name[before.names_by_id[topic_id]]
        for topic_id, changed in self._changed.items():
            old = before.with_id(topic_id)
            new = None
            if topic_id not in self._deleted:
                new = TopicImage(self._name(topic_id), topic_id, tuple(self._partitions[topic_id]))
                if old is None and new.name in by_name:
                    raise CorruptMetadata(f"two topics have the name {new.name}")
                by_name[new.name] = new
            if old is not None or new is not None:
                deltas[topic_id] = TopicDelta(old, new, tuple(sorted(changed)) if new else ())
        names_by_id, by_unified_name = self._names()
        return TopicsImage(by_name, names_by_id, by_unified_name), deltas

    def _names(self) -> tuple[Mapping[Uuid, str], Mapping[str, tuple[str, ...]]]:
        if not self._created and not self._deleted:
            return self._before.names_by_id, self._before.by_unified_name
        names_by_id = dict(self._before.names_by_id)
        by_unified_name = dict(self._before.by_unified_name)
        for topic_id, name in self._created.items():
            names_by_id[topic_id] = name
            if unified := unified_name(name):
                by_unified_name[unified] = (*by_unified_name.get(unified, ()), name)
        for topic_id in self._deleted:
            name = names_by_id.pop(topic_id)
            if unified := unified_name(name):
                others = list(by_unified_name.pop(unified))
                others.remove(name)
                if others:
                    by_unified_name[unified] = tuple(others)
        return names_by_id, by_unified_name

    def _with_name(self, name: str) -> list[Uuid]:
        """The topic of this name. If it was deleted and created again, both."""
        before = self._before.by_name.get(name)
        found = [] if before is None else [before.topic_id]
        if name in self._created_ids:
            found.append(self._created_ids[name])
        return found

    def _name(self, topic_id: Uuid) -> str:
        name = self._created.get(topic_id) or self._before.names_by_id.get(topic_id)
        if name is None or topic_id in self._deleted:
            raise CorruptMetadata(f"no topic has the id {uuid_text(topic_id)}")
        return name

    def _current(self, topic_id: Uuid) -> list[PartitionImage]:
        partitions = self._partitions.get(topic_id)
        return (
            list(self._before.by_name[self._name(topic_id)].partitions) if partitions is None else partitions
        )

    def _touch(self, topic_id: Uuid) -> list[PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._partitions[topic_id] = self._current(topic_id)
            self._changed[topic_id] = set()
        return partitions
