"""Partitions by topic, as groups hold them: what a member shall have, and what it has. Never changed in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from penstock.protocol.types import Uuid

Assignment = Mapping[Uuid, AbstractSet[int]]
"""What a member shall have. A topic without partitions is absent."""

Owned = Mapping[Uuid, Mapping[int, int]]
"""What a member has: each partition with the epoch in which it was given (KIP-1251)."""

NOTHING: Mapping[Uuid, Any] = {}
NO_PARTITIONS: frozenset[int] = frozenset()


class TopicPartitions(Protocol):
    """As every message and record spells partitions of one topic."""

    topic_id: Uuid
    partitions: list[int]


def partitions_of(owned: Owned) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def given_at(assignment: Assignment, epoch: int) -> Owned:
    """As if all of it had been given in one epoch."""
    return {topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in assignment.items()}


def read_assignment(topics: Iterable[TopicPartitions]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def in_order(assignment: Assignment | Owned) -> Iterator[tuple[Uuid, list[int]]]:
    """As it is written down: by topic id and index, so that one assignment has one spelling."""
    for topic_id in sorted(assignment):
        yield topic_id, sorted(assignment[topic_id])


def holds_all(owned: Owned, reported: Sequence[TopicPartitions]) -> bool:
    return all(
        partition in owned.get(topic.topic_id, ()) for topic in reported for partition in topic.partitions
    )


def holds_any(owned: Owned, reported: Sequence[TopicPartitions]) -> bool:
    return any(
        partition in owned.get(topic.topic_id, ()) for topic in reported for partition in topic.partitions
    )
