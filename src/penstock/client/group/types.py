"""Types of group membership: events, metadata, offsets and subscriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.cluster import Cluster, TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True, eq=False)
class Revoked:
    """These partitions go to other members: commit and acknowledge. Until then this member owns them."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """These partitions were added; empty if a rebalance changed nothing."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """Other members may own these partitions already: nothing can be committed for them."""

    partitions: tuple[TopicPartition, ...]
    reason: str


Event = Revoked | Assigned | Lost


class GroupMetadata(NamedTuple):
    """The identity of a member in its group, for `Producer.send_offsets`."""

    group_id: str
    generation: int = NO_GENERATION
    """In the consumer protocol the member epoch."""
    member_id: str = ""
    instance_id: str | None = None


class Offset(NamedTuple):
    """A committed offset: the next offset to read, with optional metadata."""

    offset: int
    leader_epoch: int = -1
    """The leader epoch of the last record read, if known: it detects truncation (KIP-320)."""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, or a pattern, never both.

    A compiled pattern has Python's syntax and is matched here, against whole names. Text has RE2 syntax and is matched
    by brokers, or here if they cannot.
    """

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | str | None = None

    def __bool__(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def matched(self, cluster: Cluster, *, with_internal: bool) -> frozenset[str]:
        """The matching topics in the known metadata."""
        if self.pattern is None:
            return self.topics
        pattern = re.compile(self.pattern)
        return frozenset(
            name
            for name, topic in cluster.topics.items()
            if pattern.fullmatch(name) and (with_internal or not topic.is_internal) and topic.partitions
        )


def in_order(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions))
