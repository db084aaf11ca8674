"""Spreads partitions over members: evenly first, near their racks second, with few moves third.

If all members want the same topics and racks do not matter, this is counting: each member keeps as much as its share
allows, and the rest is dealt out. In general it is a transportation problem: kinds of partitions (those of one topic
with replicas in the same racks) are sent to members, and only the number of a kind that a member gets matters, because
it then keeps as many of its own as possible. A good solution is improved along cycles that lower its cost, until there
are none, which proves it optimal, or until `STEPS_MAX`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import GroupSubscription
from penstock.client.group.assignors.transport import Transport

Owners = Mapping[TopicPartition, str]


def spread(group: GroupSubscription, owners: Owners) -> dict[str, list[TopicPartition]]:
    """`owners` has, for existing partitions, the owners that still want them."""
    if not group.members:
        return {}
    wanted = {
        frozenset(topic for topic in member.topics if topic in group.racks)
        for member in group.members.values()
    }
    if len(wanted) == 1 and not racks_matter(group):
        return _spread_evenly(group, owners)
    return _spread_best(group, owners)


def racks_matter(group: GroupSubscription) -> bool:
    of_members = {member.rack for member in group.members.values() if member.rack}
    of_partitions = [
        racks for topic, each in group.racks.items() if group.subscribers[topic] for racks in each
    ]
    everywhere = frozenset().union(*of_partitions)
    return not of_members.isdisjoint(everywhere) and any(racks != everywhere for racks in of_partitions)


def _spread_evenly(group: GroupSubscription, owners: Owners) -> dict[str, list[TopicPartition]]:
    partitions = [
        TopicPartition(topic, index)
        for topic, subscribers in group.subscribers.items()
        if subscribers
        for index in range(group.partitions(topic))
    ]
    had: dict[str, list[TopicPartition]] = {member.member_id: [] for member in group.in_order}
    for partition in sorted(partitions, key=lambda each: (each.partition, each.topic)):
        if partition in owners:
            had[owners[partition]].append(partition)
    share, extras = divmod(len(partitions), len(had))
    # The members with most partitions get one more, because they can keep it.
    shares = {
        member_id: share + (1 if place < extras else 0)
        for place, member_id in enumerate(sorted(had, key=lambda each: -len(had[each])))
    }
    given = {member_id: kept[: shares[member_id]] for member_id, kept in had.items()}
    taken = {partition for kept in given.values() for partition in kept}
    turns = cycle(given)
    for partition in partitions:
        if partition not in taken:
            given[next(each for each in turns if len(given[each]) < shares[each])].append(partition)
    return {member_id: sorted(given[member_id]) for member_id in group.members}


def _spread_best(group: GroupSubscription, owners: Owners) -> dict[str, list[TopicPartition]]:
    kinds: dict[tuple[str, frozenset[str]], list[TopicPartition]] = {}
    racks_count = racks_matter(group)
    for topic, subscribers in group.subscribers.items():
        if subscribers:
            for index, racks in enumerate(group.racks[topic]):
                kind = topic, racks if racks_count else frozenset[str]()
                kinds.setdefault(kind, []).append(TopicPartition(topic, index))
    places = {member.member_id: place for place, member in enumerate(group.in_order)}
    transport = Transport(len(places))
    for (topic, racks), partitions in kinds.items():
        had = dict.fromkeys((places[member.member_id] for member in group.subscribers[topic]), 0)
        for partition in partitions:
            if partition in owners:
                had[places[owners[partition]]] += 1
        far = {
            places[member.member_id]
            for member in group.subscribers[topic]
            if racks_count and member.rack and member.rack not in racks
        }
        transport.add(len(partitions), had=had, far=far)
    counts = transport.solve()

    given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in group.members}
    members = list(places)
    for partitions, count in zip(kinds.values(), counts, strict=True):
        left = dict(count)
        homeless = []
        for partition in partitions:
            owner = owners.get(partition)
            if owner is not None and left.get(places[owner], 0):
                left[places[owner]] -= 1
                given[owner].append(partition)
            else:
                homeless.append(partition)
        takers = (members[place] for place in sorted(left) for _ in range(left[place]))
        for partition, taker in zip(homeless, takers, strict=True):
            given[taker].append(partition)
    return {member_id: sorted(partitions) for member_id, partitions in given.items()}
