"""The uniform assignor for members that subscribe to different topics.

The result is balanced when no partition can move to another subscriber of its topic that has at least two partitions
less. Members keep their partitions first; unassigned partitions go to the member with the fewest; then partitions move,
topic by topic, until the result is balanced.
"""

from __future__ import annotations

import heapq
from collections import Counter

from penstock.coordinator.group.consumer.assignment import Assignment
from penstock.coordinator.group.consumer.assignors.group import GroupToAssign
from penstock.protocol.types import Uuid

ROUNDS_MAX = 16  # a move in one topic may cause one in another; more rounds gain hardly anything


def assign_unevenly(group: GroupToAssign) -> dict[str, Assignment]:
    return _Balance(group).assign()


class _Balance:
    def __init__(self, group: GroupToAssign) -> None:
        self._counts = group.partition_counts
        self._group = group
        self._order = {member_id: place for place, member_id in enumerate(group.members)}
        self._subscribers: dict[Uuid, list[str]] = {}
        self._held: dict[Uuid, dict[str, set[int]]] = {}
        """By topic and member."""
        self._load: Counter[str] = Counter()
        for member_id, member in group.members.items():
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
                partitions = member.target.get(topic_id)
                if partitions:
                    self._held.setdefault(topic_id, {})[member_id] = set(partitions)
                    self._load[member_id] += len(partitions)

    def assign(self) -> dict[str, Assignment]:
        # Topics with many partitions for each subscriber first: the others can balance them later.
        topics = sorted(
            self._subscribers,
            key=lambda topic_id: (
                -self._counts[topic_id] / len(self._subscribers[topic_id]),
                len(self._subscribers[topic_id]),
                topic_id,
            ),
        )
        for topic_id in topics:
            self._assign_free(topic_id)
        shared = [topic_id for topic_id in topics if len(self._subscribers[topic_id]) > 1]
        for _ in range(ROUNDS_MAX):
            if not sum(self._balance(topic_id) for topic_id in shared):
                break
        return self._result()

    def _assign_free(self, topic_id: Uuid) -> None:
        """Assign the free partitions of a topic to the members with the fewest partitions."""
        held = self._held.setdefault(topic_id, {})
        taken = set().union(*held.values())
        if len(taken) == self._counts[topic_id]:
            return
        least = [
            (self._load[member_id], self._order[member_id], member_id)
            for member_id in self._subscribers[topic_id]
        ]
        heapq.heapify(least)
        for partition in range(self._counts[topic_id]):
            if partition not in taken:
                load, place, member_id = least[0]
                held.setdefault(member_id, set()).add(partition)
                self._load[member_id] = load + 1
                heapq.heapreplace(least, (load + 1, place, member_id))

    def _balance(self, topic_id: Uuid) -> int:
        """Move partitions of a topic from the members with most to those with fewest; returns the number of moves."""
        held, load, order = self._held[topic_id], self._load, self._order
        subscribers = self._subscribers[topic_id]
        if (
            max(load[member_id] for member_id in subscribers)
            - min(load[member_id] for member_id in subscribers)
            <= 1
        ):
            return 0
        most = [
            (-load[member_id], order[member_id], member_id)
            for member_id in subscribers
            if held.get(member_id)
        ]
        least = [(load[member_id], order[member_id], member_id) for member_id in subscribers]
        heapq.heapify(most)
        heapq.heapify(least)
        moved = 0
        while most:
            # The load of a member in a heap may be outdated; then its entry is corrected first.
            if -most[0][0] != load[most[0][2]]:
                member_id = most[0][2]
                heapq.heapreplace(most, (-load[member_id], order[member_id], member_id))
                continue
            if least[0][0] != load[least[0][2]]:
                member_id = least[0][2]
                heapq.heapreplace(least, (load[member_id], order[member_id], member_id))
                continue
            giver, taker = most[0][2], least[0][2]
            if load[giver] - load[taker] <= 1:
                break
            partition = max(held[giver])
            held[giver].remove(partition)
            if not held[giver]:
                heapq.heappop(most)
            if not held.setdefault(taker, set()):
                heapq.heappush(most, (-load[taker] - 1, order[taker], taker))
            held[taker].add(partition)
            load[giver] -= 1
            load[taker] += 1
            moved += 1
        return moved

    def _result(self) -> dict[str, Assignment]:
        assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in self._group.members}
        for topic_id, held in self._held.items():
            for member_id, partitions in held.items():
                if partitions:
                    assigned[member_id][topic_id] = frozenset(partitions)
        # An unchanged assignment stays the same object, so that nothing is written for it.
        return {
            member_id: member.target if assigned[member_id] == member.target else assigned[member_id]
            for member_id, member in self._group.members.items()
        }
