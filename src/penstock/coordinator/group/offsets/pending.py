"""Pending transactional offsets: offsets of open transactions, by group, partition and producer.

They are not in the `OffsetTable`. OffsetFetch only shows that a partition has some, if the client requires stable
offsets. The end of the transaction removes them. The order of the records decides which offset of a partition counts,
not the order of the markers, because compaction keeps the last record: an offset that a later record has superseded is
not applied.

Only replay changes this. It is not in the timeline, because queries of replicated state do not read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from penstock.coordinator.group.records.offsets import OffsetCommitValue

Partition = tuple[str, int]
"""Topic name and partition index."""


class OffsetToApply(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue


class _Pending:
    __slots__ = ("is_superseded", "value")

    def __init__(self, value: OffsetCommitValue) -> None:
        self.value = value
        self.is_superseded = False


class PendingOffsets:
    __slots__ = ("_groups", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, dict[Partition, dict[int, _Pending]]] = {}
        """By group, partition and producer; in the order of the records of each partition."""
        self._producers: dict[int, dict[tuple[str, Partition], None]] = {}
        """The partitions of each producer, in the order of its commits."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    # -- for decisions

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self.of_group(group_id)

    def of_group(self, group_id: str) -> Collection[Partition]:
        """A view, which changes."""
        return self._groups.get(group_id, ())

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Group, partition and offset; one for each producer."""
        for group_id, partitions in self._groups.items():
            for (name, index), by_producer in partitions.items():
                if name == topic:
                    for pending in by_producer.values():
                        yield group_id, index, pending.value

    # -- replay

    def put(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetCommitValue
    ) -> None:
        where = (topic, partition)
        by_producer = self._groups.setdefault(group_id, {}).setdefault(where, {})
        by_producer.pop(producer_id, None)  # moves the producer to the end
        by_producer[producer_id] = _Pending(value)
        self._producers.setdefault(producer_id, {})[group_id, where] = None

    def supersede(self, group_id: str, topic: str, partition: int) -> None:
        """An offset was committed outside of a transaction: it is newer than all pending ones."""
        partitions = self._groups.get(group_id)
        if partitions is not None:
            for pending in partitions.get((topic, partition), {}).values():
                pending.is_superseded = True

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """The offset was deleted, and all pending ones with it."""
        where = (topic, partition)
        for producer_id in list(self._groups.get(group_id, {}).get(where, ())):
            self._take(producer_id, group_id, where)

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetToApply]:
        """A transaction ended; returns the offsets to apply."""
        to_apply: list[OffsetToApply] = []
        for group_id, where in list(self._producers.get(producer_id, ())):
            if is_commit:
                pending = self._supersede_older(producer_id, group_id, where)
                if not pending.is_superseded:
                    to_apply.append(OffsetToApply(group_id, *where, pending.value))
            self._take(producer_id, group_id, where)
        return to_apply

    def _supersede_older(self, producer_id: int, group_id: str, where: Partition) -> _Pending:
        """Supersede the older offsets of other producers, and return the offset of this one."""
        by_producer = self._groups[group_id][where]
        for other_id, pending in by_producer.items():
            if other_id == producer_id:
                break
            pending.is_superseded = True
        return by_producer[producer_id]

    def _take(self, producer_id: int, group_id: str, where: Partition) -> None:
        """Empty dicts are removed, because `bool` and `of_group` are called often."""
        partitions = self._groups[group_id]
        by_producer = partitions[where]
        del by_producer[producer_id]
        if not by_producer:
            del partitions[where]
        if not partitions:
            del self._groups[group_id]
        places = self._producers[producer_id]
        del places[group_id, where]
        if not places:
            del self._producers[producer_id]
