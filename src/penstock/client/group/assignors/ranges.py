"""The range assignor: of each topic, every member gets consecutive partitions.

So topics with the same number of partitions and the same subscribers are co-partitioned: partition 3 of both goes to
the same member. If members and replicas have racks (KIP-881), a member gets partitions of its own rack first, within
the same share and with the same co-partitioning.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import Assignor, GroupSubscription, MemberSubscription, Racks


class RangeAssignor(Assignor):
    name = "range"

    def assign(self, group: GroupSubscription) -> dict[str, list[TopicPartition]]:
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
    """The shares of one topic: equal, with one more for the first few members."""

    def __init__(self, name: str, racks: tuple[Racks, ...], subscribers: list[MemberSubscription]) -> None:
        self.name = name
        self.racks = racks
        self.subscribers = subscribers
        self.has_uneven_racks = _tells_members_apart(racks, subscribers)
        self._left = dict.fromkeys(range(len(racks)))
        self._given: dict[str, list[int]] = {member.member_id: [] for member in subscribers}
        self._member_assignment, self._extras_left = divmod(len(racks), len(subscribers))

    def given(self, member_id: str) -> list[int]:
        return sorted(self._given.get(member_id, ()))

    def room(self, member: MemberSubscription) -> int:
        share = self._member_assignment + (1 if self._extras_left > 0 else 0)
        return max(0, share - len(self._given[member.member_id]))

    def is_near(self, member: MemberSubscription, index: int) -> bool:
        """A member without a rack is near everything; one with a rack only near partitions known to be in it."""
        return not member.rack or member.rack in self.racks[index]

    def give_ranges(self, may_have: Callable[[MemberSubscription, int], bool]) -> None:
        for member in self.subscribers:
            fitting = [index for index in self._left if may_have(member, index)]
            self.give(member, fitting[: self.room(member)])

    def give(self, member: MemberSubscription, indexes: list[int]) -> None:
        given = self._given[member.member_id]
        given.extend(indexes)
        if indexes and len(given) > self._member_assignment:
            self._extras_left -= 1
        for index in indexes:
            del self._left[index]


def _tells_members_apart(racks: tuple[Racks, ...], subscribers: list[MemberSubscription]) -> bool:
    """Whether racks matter: some member is near some partitions and not near others."""
    of_members = {member.rack for member in subscribers if member.rack}
    everywhere = frozenset().union(*racks)
    return not of_members.isdisjoint(everywhere) and any(each != everywhere for each in racks)


def _read_together(topics: list[_TopicShares]) -> list[list[_TopicShares]]:
    """Topics with the same subscribers and the same number of partitions."""

    def kind(topic: _TopicShares) -> tuple[tuple[str, ...], int]:
        # If no subscriber has a rack, Kafka has no racks of partitions either and treats such topics as one kind. As
        # all of them are near every member, the assignment is the same.
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
