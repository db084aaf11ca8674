"""Offsets of open transactions: what a group will have read once they are committed.

They stand beside the `OffsetTable`, by group and partition, for each producer one, and nobody outside sees them; a
consumer that asks for stable offsets is told that there are some. The end of the transaction takes them out. What
becomes of a partition's offset is decided by the order of the records, not by that of the markers, because this is
what compaction keeps: an offset that was overtaken by a later record that holds is not applied any more.

Only replay changes this. It keeps no layers of what is not replicated yet, because questions from outside, which
are answered from committed state, do not look here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from penstock.coordinator.group.records.offsets import OffsetCommitValue

Partition = tuple[str, int]
"""Topic and index."""


class OffsetToApply(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue


class _Pending:
    __slots__ = ("is_overtaken", "value")

    def __init__(self, value: OffsetCommitValue) -> None:
        self.value = value
        self.is_overtaken = False


class PendingOffsets:
    __slots__ = ("_groups", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, dict[Partition, dict[int, _Pending]]] = {}
        """By group, partition and producer; those of one partition in the order of their records."""
        self._producers: dict[int, dict[tuple[str, Partition], None]] = {}
        """Where each producer has some: a set in the order of its commits."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    # -- for decisions

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self.of_group(group_id)

    def of_group(self, group_id: str) -> Collection[Partition]:
        """Not to be kept: it changes."""
        return self._groups.get(group_id, ())

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Group, partition and what is pending; several of one partition where several producers have some."""
        for group_id, partitions in self._groups.items():
            for (name, index), by_producer in partitions.items():
                if name == topic:
                    for pending in by_producer.values():
                        yield group_id, index, pending.value

    # -- for replay alone

    def put(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetCommitValue
    ) -> None:
        where = (topic, partition)
        by_producer = self._groups.setdefault(group_id, {}).setdefault(where, {})
        by_producer.pop(producer_id, None)  # so that it moves to the end
        by_producer[producer_id] = _Pending(value)
        self._producers.setdefault(producer_id, {})[group_id, where] = None

    def overtake(self, group_id: str, topic: str, partition: int) -> None:
        """An offset was committed outside of any transaction: it is newer than all that are pending."""
        partitions = self._groups.get(group_id)
        if partitions is not None:
            for pending in partitions.get((topic, partition), {}).values():
                pending.is_overtaken = True

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """The offset was deleted, and with it all that are pending."""
        where = (topic, partition)
        for producer_id in list(self._groups.get(group_id, {}).get(where, ())):
            self._take(producer_id, group_id, where)

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetToApply]:
        """A transaction ended; what of it holds from now on."""
        to_apply: list[OffsetToApply] = []
        for group_id, where in list(self._producers.get(producer_id, ())):
            if is_commit:
                pending = self._overtake_older(producer_id, group_id, where)
                if not pending.is_overtaken:
                    to_apply.append(OffsetToApply(group_id, *where, pending.value))
            self._take(producer_id, group_id, where)
        return to_apply

    def _overtake_older(self, producer_id: int, group_id: str, where: Partition) -> _Pending:
        """Mark what other producers have pending there since before this one, whose offset is returned."""
        by_producer = self._groups[group_id][where]
        for other_id, pending in by_producer.items():
            if other_id == producer_id:
                break
            pending.is_overtaken = True
        return by_producer[producer_id]

    def _take(self, producer_id: int, group_id: str, where: Partition) -> None:
        """What becomes empty goes: `bool` and `of_group` are asked often."""
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
