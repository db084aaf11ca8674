"""Partitions by broker, so that a change of one broker costs only its own partitions.

The index is soft state of the active controller. It is built from the image when the controller becomes active, and
follows every appended delta. It holds keys only: the partitions themselves are read from the image.

Dictionaries with None stand for sets, because the order of partitions reaches the metadata log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.protocol.types import Uuid

PartitionKey = tuple[Uuid, int]
"""Topic id and partition index."""

_Keys = dict[PartitionKey, None]
_NO_KEYS: Mapping[PartitionKey, None] = {}


class BrokerIndex:
    def __init__(self) -> None:
        self._replicas: dict[int, _Keys] = {}
        self._isr: dict[int, _Keys] = {}
        self._leaders: dict[int, _Keys] = {}
        """Also for NO_LEADER."""
        self._eligible: dict[int, _Keys] = {}
        self._reassigning: _Keys = {}
        self._not_preferred: dict[int, _Keys] = {}
        """Partitions whose leader is not the preferred one, by preferred leader. Without those that have no leader."""

    @classmethod
    def build(cls, image: MetadataImage) -> BrokerIndex:
        index = cls()
        for topic in image.topics.by_name.values():
            index._add_topic(topic)
        return index

    def apply(self, delta: MetadataDelta) -> None:
        """Follow one appended change."""
        for topic_id, change in delta.topics.items():
            before, after = change.before, change.after
            if after is None:
                for number, partition in enumerate(before.partitions if before is not None else ()):
                    self._remove((topic_id, number), partition)
                continue
            for number in change.changed_partitions:
                key = (topic_id, number)
                if before is None or number >= len(before.partitions):
                    self._add(key, after.partitions[number])
                else:
                    self._change(key, before.partitions[number], after.partitions[number])

    def hosted(self, node_id: int) -> list[PartitionKey]:
        """Partitions with a replica on the broker."""
        return list(self._replicas.get(node_id, _NO_KEYS))

    def in_sync(self, node_id: int) -> list[PartitionKey]:
        """Partitions with the broker in their ISR."""
        return list(self._isr.get(node_id, _NO_KEYS))

    def each_in_sync(self, node_id: int) -> Iterator[PartitionKey]:
        """The same one by one, for callers that need only the first."""
        return iter(self._isr.get(node_id, _NO_KEYS))

    def led(self, node_id: int) -> list[PartitionKey]:
        return list(self._leaders.get(node_id, _NO_KEYS))

    def leads_any(self, node_id: int) -> bool:
        return bool(self._leaders.get(node_id))

    def eligible(self, node_id: int) -> list[PartitionKey]:
        """Partitions with the broker among their eligible leader replicas."""
        return list(self._eligible.get(node_id, _NO_KEYS))

    def in_sync_or_eligible(self, node_id: int) -> list[PartitionKey]:
        return [*self._isr.get(node_id, _NO_KEYS), *self._eligible.get(node_id, _NO_KEYS)]

    def without_leader(self) -> list[PartitionKey]:
        return list(self._leaders.get(NO_LEADER, _NO_KEYS))

    def reassigning(self) -> list[PartitionKey]:
        return list(self._reassigning)

    def reassigning_count(self) -> int:
        return len(self._reassigning)

    def led_by_others(self, node_id: int) -> list[PartitionKey]:
        """Partitions of which the broker is the preferred leader, but another broker leads."""
        return list(self._not_preferred.get(node_id, _NO_KEYS))

    def preferred_leaders_not_leading(self) -> list[int]:
        return sorted(node_id for node_id, keys in self._not_preferred.items() if keys)

    def hosted_count(self, node_id: int) -> int:
        return len(self._replicas.get(node_id, _NO_KEYS))

    def partition_count(self) -> int:
        return sum(map(len, self._leaders.values()))

    def preferred_count(self, node_id: int) -> int:
        """How many partitions the broker leads or would lead as their preferred leader."""
        return len(self._leaders.get(node_id, _NO_KEYS)) + len(self._not_preferred.get(node_id, _NO_KEYS))

    def _add_topic(self, topic: TopicImage) -> None:
        topic_id = topic.topic_id
        for number, partition in enumerate(topic.partitions):
            self._add((topic_id, number), partition)

    def _add(self, key: PartitionKey, partition: PartitionImage) -> None:
        _put(self._replicas, partition.replicas, key)
        _put(self._isr, partition.isr, key)
        leader = partition.leader
        _put(self._leaders, (leader,), key)
        if partition.eligible_leaders:
            _put(self._eligible, partition.eligible_leaders, key)
        if partition.adding_replicas or partition.removing_replicas:
            self._reassigning[key] = None
        if leader != NO_LEADER and leader != partition.replicas[0]:
            _put(self._not_preferred, partition.replicas[:1], key)

    def _change(self, key: PartitionKey, old: PartitionImage, new: PartitionImage) -> None:
        """Most changes concern one or two of the parts."""
        if new.replicas != old.replicas:
            _drop(self._replicas, old.replicas, key)
            _put(self._replicas, new.replicas, key)
        if new.isr != old.isr:
            _drop(self._isr, [each for each in old.isr if each not in new.isr], key)
            _put(self._isr, [each for each in new.isr if each not in old.isr], key)
        if new.leader != old.leader:
            _drop(self._leaders, (old.leader,), key)
            _put(self._leaders, (new.leader,), key)
        if new.eligible_leaders != old.eligible_leaders:
            _drop(self._eligible, old.eligible_leaders, key)
            _put(self._eligible, new.eligible_leaders, key)
        if new.adding_replicas or new.removing_replicas:
            self._reassigning[key] = None
        else:
            self._reassigning.pop(key, None)
        if new.leader != old.leader or new.replicas != old.replicas:
            _drop(self._not_preferred, old.replicas[:1], key)
            if new.leader != NO_LEADER and new.leader != new.replicas[0]:
                _put(self._not_preferred, new.replicas[:1], key)

    def _remove(self, key: PartitionKey, partition: PartitionImage) -> None:
        _drop(self._replicas, partition.replicas, key)
        _drop(self._isr, partition.isr, key)
        _drop(self._leaders, (partition.leader,), key)
        _drop(self._eligible, partition.eligible_leaders, key)
        self._reassigning.pop(key, None)
        _drop(self._not_preferred, partition.replicas[:1], key)


def _put(index: dict[int, _Keys], node_ids: Iterable[int], key: PartitionKey) -> None:
    for node_id in node_ids:
        keys = index.get(node_id)
        if keys is None:
            keys = index[node_id] = {}
        keys[key] = None


def _drop(index: dict[int, _Keys], node_ids: Iterable[int], key: PartitionKey) -> None:
    for node_id in node_ids:
        keys = index.get(node_id)
        if keys is not None:
            keys.pop(key, None)
