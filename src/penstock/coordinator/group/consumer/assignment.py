"""Partitions by topic: the target assignment of a member, and the partitions that it owns. Never changed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, TypeVar

from penstock.protocol.types import Uuid

P = TypeVar("P")

Assignment = Mapping[Uuid, AbstractSet[int]]
"""A topic without partitions is absent."""

Owned = Mapping[Uuid, Mapping[int, int]]
"""Each partition with its assignment epoch: the member epoch in which it was assigned (KIP-1251)."""

NOTHING: Mapping[Uuid, Any] = {}
NO_PARTITIONS: frozenset[int] = frozenset()


class TopicPartitions(Protocol):
    """How every message and record writes partitions of one topic."""

    topic_id: Uuid
    partitions: list[int]


def partitions_of(owned: Owned) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def with_epoch(assignment: Assignment, epoch: int) -> Owned:
    """All partitions with the same assignment epoch."""
    return {topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in assignment.items()}


def read_assignment(topics: Iterable[TopicPartitions]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def write_assignment(message: Callable[..., P], assignment: Assignment | Owned) -> list[P]:
    """One `message`, which has the fields of `TopicPartitions`, for each topic."""
    return [
        message(topic_id=topic_id, partitions=partitions) for topic_id, partitions in in_order(assignment)
    ]


def in_order(assignment: Assignment | Owned) -> Iterator[tuple[Uuid, list[int]]]:
    """By topic id and partition, so that equal assignments are written as equal bytes."""
    for topic_id in sorted(assignment):
        yield topic_id, sorted(assignment[topic_id])


def owns_all(owned: Owned, reported: Sequence[TopicPartitions]) -> bool:
    return all(
        partition in owned.get(topic.topic_id, ()) for topic in reported for partition in topic.partitions
    )


def owns_any(owned: Owned, reported: Sequence[TopicPartitions]) -> bool:
    return any(
        partition in owned.get(topic.topic_id, ()) for topic in reported for partition in topic.partitions
    )
