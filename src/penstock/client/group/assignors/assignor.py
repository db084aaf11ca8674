"""The interface of assignors, which decide the partitions of each member of a classic group.

The leader of a group passes all members and their topics to its assignor. A program may bring its own:

    class Hot(Assignor):
        name = "hot"

        def assign(self, group: GroupSubscription) -> dict[str, list[TopicPartition]]:
            ...

    Consumer("orders", group="billing", partition_assignment_strategy=[Hot()])

All members of a group must have at least one assignor of the same name. An assignor must return the same for the same
group, must not assign a partition to two members, and must not depend on time or randomness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.client.cluster import TopicPartition

NO_GENERATION = -1

Racks = frozenset[str]


@dataclass(frozen=True)
class MemberSubscription:
    """The subscription of one member, as it sent it with JoinGroup."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    """The generation in which it got its owned partitions; -1 if it does not say."""
    user_data: bytes | None = None


@dataclass(frozen=True)
class GroupSubscription:
    members: Mapping[str, MemberSubscription]
    racks: Mapping[str, tuple[Racks, ...]]
    """By topic, for each of its partitions, the racks of its replicas. Topics that do not exist are missing."""

    def partitions(self, topic: str) -> int:
        return len(self.racks.get(topic, ()))

    @cached_property
    def in_order(self) -> list[MemberSubscription]:
        """Static members by instance id, then the others by member id: the order for all assignors."""
        return sorted(
            self.members.values(),
            key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
        )

    @cached_property
    def subscribers(self) -> dict[str, list[MemberSubscription]]:
        """The subscribers of each existing topic, in order."""
        found: dict[str, list[MemberSubscription]] = {topic: [] for topic in sorted(self.racks)}
        for member in self.in_order:
            for topic in dict.fromkeys(member.topics):
                if topic in found:
                    found[topic].append(member)
        return found


@dataclass(frozen=True)
class MemberAssignment:
    """The partitions of one member, and user data for its own assignor."""

    partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None


@dataclass(frozen=True)
class ReceivedAssignment:
    """The last assignment of a member, for assignors that remember it."""

    partitions: tuple[TopicPartition, ...]
    generation: int
    user_data: bytes | None = field(default=None, repr=False)


class Assignor(ABC):
    name: str
    """The name by which the members of a group agree on it."""

    is_cooperative: bool = False
    """Members may keep reading during a rebalance: a partition is not assigned before its owner has revoked it
    (KIP-429)."""

    @abstractmethod
    def assign(self, group: GroupSubscription) -> Mapping[str, MemberAssignment | Sequence[TopicPartition]]:
        """The assignment by member id; a member that is missing gets nothing."""

    def user_data(self, topics: Sequence[str], received: ReceivedAssignment | None) -> bytes | None:
        """Data for the leader's assignor, sent with JoinGroup."""
        return None

    def assigned(self, received: ReceivedAssignment) -> None:  # noqa: B027 - most have nothing to do
        """Called when this member has received an assignment of this assignor."""
