"""The words that members of groups and their owners use with each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.cluster import Cluster, TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True, eq=False)
class Revoked:
    """These go to other members: commit, let go of them, acknowledge. Until then they are still this member's."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """These have been added; there may be none, where a rebalance changed nothing."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """These are with other members already, or may be: nothing can be committed for them any more."""

    partitions: tuple[TopicPartition, ...]
    reason: str


Event = Revoked | Assigned | Lost


class GroupMetadata(NamedTuple):
    """Who a member is to its group, as a transaction has to know it (`send_offsets`)."""

    group_id: str
    generation: int = NO_GENERATION
    """Or the member's epoch, in the newer protocol."""
    member_id: str = ""
    instance_id: str | None = None


class Offset(NamedTuple):
    """How far a group has read: the next offset to read, and a note."""

    offset: int
    leader_epoch: int = -1
    """Of the last record that was read, where it is known: so a log that was cut is noticed (KIP-320)."""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, or a pattern for their names, never both.

    A compiled pattern is one of Python's and is matched here, against whole names. A text is one of RE2 and is for
    brokers to match; where they cannot, it is matched here too.
    """

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | str | None = None

    def __bool__(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def matched(self, cluster: Cluster, *, with_internal: bool) -> frozenset[str]:
        """The topics that are meant, as far as the picture of the cluster shows them."""
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
