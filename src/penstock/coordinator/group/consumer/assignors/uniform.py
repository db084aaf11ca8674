"""The uniform assignor: as even as can be, and as little changed as that allows.

Where all members subscribe to the same topics, the numbers of their partitions differ by one at most, and a
member loses only what it has beyond its share. Otherwise see `uneven`.
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
    hungry: list[tuple[str, int]] = []
    for member_id, member in group.members.items():
        share = shares[member_id]
        kept, count, given_up = _keep(member, share, group)
        assigned[member_id] = kept
        free += given_up
        if count < share:
            hungry.append((member_id, share - count))
    rest = iter(free)
    for member_id, count in hungry:
        assigned[member_id] = _extended(assigned[member_id], islice(rest, count))
    return assigned


def _shares(group: GroupToAssign) -> dict[str, int]:
    """How many each member gets. What cannot be divided goes to those first who have more than the others already."""
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
    """What a member keeps of what it had, how much that is, and what others may have of it."""
    if _count(member, group) <= share and all(
        topic_id in group.partition_counts for topic_id in member.target
    ):
        return member.target, _count(member, group), []
    kept: dict[Uuid, frozenset[int]] = {}
    given_up: list[Partition] = []
    count = 0
    for topic_id, partitions in member.target.items():
        if topic_id not in group.partition_counts:
            continue
        ordered = sorted(partitions)
        if share > count:
            kept[topic_id] = frozenset(ordered[: share - count])
        given_up += [(topic_id, partition) for partition in ordered[share - count :]]
        count += min(len(ordered), share - count)
    return kept, count, given_up


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
