"""The range assignor: topic by topic, consecutive partitions go to each member.

So topics with as many partitions as each other are read together: partition 3 of both is with the same
member, as long as both have the same subscribers. Where members and replicas have racks (KIP-881), a member gets
partitions of its own rack first, within the same share and with the same promise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import Assignor, GroupToAssign, MemberToAssign, Racks


class RangeAssignor(Assignor):
    name = "range"

    def assign(self, group: GroupToAssign) -> dict[str, list[TopicPartition]]:
        topics = [
            _TopicShares(topic, group.racks[topic], subscribers)
            for topic, subscribers in group.subscribers.items()
            if subscribers and group.racks[topic]
        ]
        if any(topic.has_uneven_racks for topic in topics):
            for together in _read_together(topics):
                _match_racks(together)
        for topic in topics:
            topic.give_ranges(lambda member, index: True)
        return {
            member_id: [
                TopicPartition(topic.name, index) for topic in topics for index in topic.given(member_id)
            ]
            for member_id in group.members
        }


class _TopicShares:
    """How the partitions of one topic are dealt out; everyone gets as many, the first few one more."""

    def __init__(self, name: str, racks: tuple[Racks, ...], subscribers: list[MemberToAssign]) -> None:
        self.name = name
        self.racks = racks
        self.subscribers = subscribers
        self.has_uneven_racks = _tells_members_apart(racks, subscribers)
        self._left = dict.fromkeys(range(len(racks)))
        self._given: dict[str, list[int]] = {member.member_id: [] for member in subscribers}
        self._share, self._extras_left = divmod(len(racks), len(subscribers))

    def given(self, member_id: str) -> list[int]:
        return sorted(self._given.get(member_id, ()))

    def room(self, member: MemberToAssign) -> int:
        share = self._share + (1 if self._extras_left > 0 else 0)
        return max(0, share - len(self._given[member.member_id]))

    def is_near(self, member: MemberToAssign, index: int) -> bool:
        """A member without a rack is near everything; one with a rack only what it knows to be there."""
        return not member.rack or member.rack in self.racks[index]

    def give_ranges(self, may_have: Callable[[MemberToAssign, int], bool]) -> None:
        for member in self.subscribers:
            fitting = [index for index in self._left if may_have(member, index)]
            self.give(member, fitting[: self.room(member)])

    def give(self, member: MemberToAssign, indexes: list[int]) -> None:
        given = self._given[member.member_id]
        given.extend(indexes)
        if indexes and len(given) > self._share:
            self._extras_left -= 1
        for index in indexes:
            del self._left[index]


def _tells_members_apart(racks: tuple[Racks, ...], subscribers: list[MemberToAssign]) -> bool:
    """Whether racks matter: someone is near some partitions and not near others."""
    of_members = {member.rack for member in subscribers if member.rack}
    everywhere = frozenset().union(*racks)
    return not of_members.isdisjoint(everywhere) and any(each != everywhere for each in racks)


def _read_together(topics: list[_TopicShares]) -> list[list[_TopicShares]]:
    """Topics with the same subscribers and as many partitions."""

    def kind(topic: _TopicShares) -> tuple[tuple[str, ...], int]:
        # Where no subscriber has a rack Kafka has no racks of partitions either, and takes such topics for one kind;
        # as all of them are near everyone, that makes no difference to what is given.
        return tuple(member.member_id for member in topic.subscribers), len(topic.racks)

    return [list(together) for _, together in groupby(sorted(topics, key=kind), key=kind)]


def _match_racks(together: list[_TopicShares]) -> None:
    first = together[0]
    if len(together) == 1:
        if first.has_uneven_racks:
            first.give_ranges(first.is_near)
        return
    for index in range(len(first.racks)):
        for member in first.subscribers:
            if all(topic.room(member) and topic.is_near(member, index) for topic in together):
                for topic in together:
                    topic.give(member, [index])
                break
