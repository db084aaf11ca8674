"""What an assignor is: who decides which member of a classic group reads what.

The leader of a group hands all members and the topics they want to its assignor. A program may bring its own:

    class Hot(Assignor):
        name = "hot"

        def assign(self, group: GroupToAssign) -> dict[str, list[TopicPartition]]:
            ...

    Consumer("orders", group="billing", partition_assignment_strategy=[Hot()])

All members of a group must offer at least one assignor of the same name. An assignor must answer the same for the
same group, must give no partition to two members, and must know nothing of time or chance.
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
class MemberToAssign:
    """One member, as it described itself when it joined."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    """In which it came by what it owns; -1 where it does not say."""
    user_data: bytes | None = None


@dataclass(frozen=True)
class GroupToAssign:
    members: Mapping[str, MemberToAssign]
    racks: Mapping[str, tuple[Racks, ...]]
    """By topic, for each of its partitions the racks of its replicas. Topics that do not exist are not here."""

    def partitions(self, topic: str) -> int:
        return len(self.racks.get(topic, ()))

    @cached_property
    def in_order(self) -> list[MemberToAssign]:
        """Static members by their instance id, then the others by their id: the order that all assignors count in."""
        return sorted(
            self.members.values(),
            key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
        )

    @cached_property
    def subscribers(self) -> dict[str, list[MemberToAssign]]:
        """By topic, in order; topics that exist only."""
        found: dict[str, list[MemberToAssign]] = {topic: [] for topic in sorted(self.racks)}
        for member in self.in_order:
            for topic in dict.fromkeys(member.topics):
                if topic in found:
                    found[topic].append(member)
        return found


@dataclass(frozen=True)
class Share:
    """What one member is given, and a word of the assignor to its fellow at that member."""

    partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None


@dataclass(frozen=True)
class Tenure:
    """The assignment that a member has been given last, for assignors that remember it."""

    partitions: tuple[TopicPartition, ...]
    generation: int
    user_data: bytes | None = field(default=None, repr=False)


class Assignor(ABC):
    name: str
    """By which the members of a group agree on it."""

    is_cooperative: bool = False
    """Members may keep reading through a rebalance: no partition is given away before its owner let go (KIP-429)."""

    @abstractmethod
    def assign(self, group: GroupToAssign) -> Mapping[str, Share | Sequence[TopicPartition]]:
        """By member id; a member that is left out gets nothing."""

    def user_data(self, topics: Sequence[str], tenure: Tenure | None) -> bytes | None:
        """What this member tells the leader's assignor when it joins."""
        return None

    def assigned(self, tenure: Tenure) -> None:  # noqa: B027 - most have nothing to do
        """This member has been given an assignment by this assignor."""
