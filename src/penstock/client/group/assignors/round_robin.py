"""The round robin assignor: deals all partitions of all topics to the members in turn.

If members subscribe to different topics, a member that does not want a partition is skipped.
"""

from __future__ import annotations

from itertools import cycle

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import Assignor, GroupSubscription


class RoundRobinAssignor(Assignor):
    name = "roundrobin"

    def assign(self, group: GroupSubscription) -> dict[str, list[TopicPartition]]:
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in group.members}
        turns = cycle(group.in_order)
        for topic, subscribers in group.subscribers.items():
            if not subscribers:
                continue
            for index in range(group.partitions(topic)):
                taker = next(member for member in turns if topic in member.topics)
                given[taker.member_id].append(TopicPartition(topic, index))
        return given
