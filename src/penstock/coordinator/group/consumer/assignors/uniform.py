"""The uniform assignor: as balanced as possible, and then as sticky as possible.

If all members subscribe to the same topics, their partition counts differ by at most one, and a member only loses
partitions above its share. Otherwise see `uneven`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from penstock.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment
from penstock.coordinator.group.consumer.assignors.group import AssignedMember, GroupToAssign
from penstock.coordinator.group.consumer.assignors.uneven import assign_unevenly
from penstock.protocol.types import Uuid

Partition = tuple[Uuid, int]


def assign_uniformly(group: GroupToAssign) -> dict[str, Assignment]:
    if not group.members:
        return {}
    return _assign_evenly(group) if group.is_homogeneous else assign_unevenly(group)


def _assign_evenly(group: GroupToAssign) -> dict[str, Assignment]:
    shares = _shares(group)
    assigned: dict[str, Assignment] = {}
    free: list[Partition] = list(_unassigned(group))
    below_share: list[tuple[str, int]] = []
    for member_id, member in group.members.items():
        share = shares[member_id]
        kept, count, lost = _keep(member, share, group)
        assigned[member_id] = kept
        free += lost
        if count < share:
            below_share.append((member_id, share - count))
    rest = iter(free)
    for member_id, count in below_share:
        assigned[member_id] = _extended(assigned[member_id], islice(rest, count))
    return assigned


def _shares(group: GroupToAssign) -> dict[str, int]:
    """The partition count of each member. The remainder goes first to members that have more already."""
    share, extra = divmod(sum(group.partition_counts.values()), len(group.members))
    shares = dict.fromkeys(group.members, share)
    if not extra:
        return shares
    counts = {member_id: _count(member, group) for member_id, member in group.members.items()}
    for has_more in (True, False):
        for member_id, count in counts.items():
            if (count > share) is has_more and extra:
                shares[member_id] += 1
                extra -= 1
    return shares


def _count(member: AssignedMember, group: GroupToAssign) -> int:
    known = group.partition_counts
    return sum(len(partitions) for topic_id, partitions in member.target.items() if topic_id in known)


def _keep(
    member: AssignedMember, share: int, group: GroupToAssign
) -> tuple[Assignment, int, list[Partition]]:
    """The partitions that a member keeps, their count, and the partitions that it loses."""
    if _count(member, group) <= share and all(
        topic_id in group.partition_counts for topic_id in member.target
    ):
        return member.target, _count(member, group), []
    kept: dict[Uuid, frozenset[int]] = {}
    lost: list[Partition] = []
    count = 0
    for topic_id, partitions in member.target.items():
        if topic_id not in group.partition_counts:
            continue
        ordered = sorted(partitions)
        if share > count:
            kept[topic_id] = frozenset(ordered[: share - count])
        lost += [(topic_id, partition) for partition in ordered[share - count :]]
        count += min(len(ordered), share - count)
    return kept, count, lost


def _unassigned(group: GroupToAssign) -> Iterator[Partition]:
    taken: dict[Uuid, set[int]] = {topic_id: set() for topic_id in group.partition_counts}
    for member in group.members.values():
        for topic_id, partitions in member.target.items():
            if topic_id in taken:
                taken[topic_id].update(partitions)
    for topic_id, count in group.partition_counts.items():
        if len(taken[topic_id]) < count:
            for partition in range(count):
                if partition not in taken[topic_id]:
                    yield topic_id, partition


def _extended(assignment: Assignment, more: Iterator[Partition]) -> Assignment:
    extended = dict(assignment)
    for topic_id, partition in more:
        extended[topic_id] = extended.get(topic_id, NO_PARTITIONS) | {partition}
    return extended
