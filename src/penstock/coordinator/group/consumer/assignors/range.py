"""The range assignor: each member gets a range of consecutive partitions of every topic.

Members have the same order for all topics. So topics with the same subscribers and partition count are co-partitioned:
the same member gets partition n of each, which joins require. The previous assignment does not matter, but static
members keep their place, because they are ordered by instance id.
"""

from __future__ import annotations

from penstock.coordinator.group.consumer.assignment import Assignment
from penstock.coordinator.group.consumer.assignors.group import GroupToAssign
from penstock.protocol.types import Uuid


def assign_ranges(group: GroupToAssign) -> dict[str, Assignment]:
    assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in group.members}
    for topic_id, subscribers in _subscribers(group).items():
        quota, extra = divmod(group.partition_counts[topic_id], len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + quota + (place < extra)
            if start == end:
                break
            assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _subscribers(group: GroupToAssign) -> dict[Uuid, list[str]]:
    """By topic, in the order of the members: static ones first."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    ordered = sorted(group.members, key=place)
    if group.is_homogeneous:
        return dict.fromkeys(group.partition_counts, ordered)
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in ordered:
        for topic_id in group.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers
