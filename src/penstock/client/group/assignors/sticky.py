"""The sticky assignors: as even as possible, then with as few moves as possible.

Both find the same assignment. `StickyAssignor` is for eager groups, which revoke everything before they join: the
previous assignment is in the user data. `CooperativeStickyAssignor` (KIP-429) is for groups that keep reading during a
rebalance: it withholds partitions that another member still owns; that member revokes them and joins again.

Invariant: no partition is assigned to a member while another one may still read it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import (
    NO_GENERATION,
    Assignor,
    GroupSubscription,
    MemberSubscription,
    ReceivedAssignment,
)
from penstock.client.group.assignors.balance import spread
from penstock.client.group.assignors.user_data import read_previous, write_previous
from penstock.protocol.errors import MalformedMessage

Claim = tuple[Sequence[TopicPartition], int]
"""The partitions that a member claims, and the generation of the claim."""

_GENERATION = struct.Struct(">i")


class StickyAssignor(Assignor):
    name = "sticky"

    def assign(self, group: GroupSubscription) -> dict[str, list[TopicPartition]]:
        claims = {member_id: _claim_of_eager(member) for member_id, member in group.members.items()}
        return spread(group, _owners(group, claims))

    def user_data(self, topics: Sequence[str], received: ReceivedAssignment | None) -> bytes | None:
        return write_previous(received.partitions, received.generation) if received is not None else None


class CooperativeStickyAssignor(Assignor):
    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, group: GroupSubscription) -> dict[str, list[TopicPartition]]:
        claims = {member_id: _claim_of_cooperative(member) for member_id, member in group.members.items()}
        owners = _owners(group, claims)
        claimed = {partition for partitions, _ in claims.values() for partition in partitions}
        return {
            member_id: [
                partition
                for partition in partitions
                if partition not in claimed or owners.get(partition) == member_id
            ]
            for member_id, partitions in spread(group, owners).items()
        }

    def user_data(self, topics: Sequence[str], received: ReceivedAssignment | None) -> bytes | None:
        return _GENERATION.pack(received.generation if received is not None else NO_GENERATION)


def _claim_of_eager(member: MemberSubscription) -> Claim:
    try:
        return read_previous(member.user_data) if member.user_data else ((), NO_GENERATION)
    except MalformedMessage:
        return (), NO_GENERATION  # data of another program is ignored; the member starts without claims


def _claim_of_cooperative(member: MemberSubscription) -> Claim:
    generation = member.generation
    if generation == NO_GENERATION and member.user_data and len(member.user_data) >= _GENERATION.size:
        generation = _GENERATION.unpack_from(member.user_data)[
            0
        ]  # before version 2 there was no field for it
    return member.owned, generation


def _owners(group: GroupSubscription, claims: dict[str, Claim]) -> dict[TopicPartition, str]:
    """The previous owners: of several claims the newest wins, and of equal ones none."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, (partitions, generation) in claims.items():
        for partition in partitions:
            known = best.get(partition)
            if known is None or generation > known[0]:
                best[partition] = generation, member_id
            elif generation == known[0] and known[1] != member_id:
                best[partition] = generation, None
    return {
        partition: owner
        for partition, (_, owner) in best.items()
        if owner is not None and _is_wanted(group, group.members[owner], partition)
    }


def _is_wanted(group: GroupSubscription, member: MemberSubscription, partition: TopicPartition) -> bool:
    return partition.topic in member.topics and 0 <= partition.partition < group.partitions(partition.topic)
