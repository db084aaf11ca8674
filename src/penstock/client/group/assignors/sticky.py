"""The sticky assignors: as even as can be, and then as few partitions moved as can be.

Both find the same assignment. `StickyAssignor` is for groups that let go of everything before they join (eager):
what a member had travels in its user data. `CooperativeStickyAssignor` (KIP-429) is for groups that read on through
a rebalance: it withholds what another member still has, and that one joins again when it has let go.
Invariant: no partition is given to a member while another one may still read it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import (
    NO_GENERATION,
    Assignor,
    GroupToAssign,
    MemberToAssign,
    Tenure,
)
from penstock.client.group.assignors.balance import spread
from penstock.client.group.assignors.user_data import read_previous, write_previous
from penstock.protocol.errors import MalformedMessage

Claim = tuple[Sequence[TopicPartition], int]
"""What a member says that it has, and since which generation."""

_GENERATION = struct.Struct(">i")


class StickyAssignor(Assignor):
    name = "sticky"

    def assign(self, group: GroupToAssign) -> dict[str, list[TopicPartition]]:
        claims = {member_id: _claim_of_eager(member) for member_id, member in group.members.items()}
        return spread(group, _owners(group, claims))

    def user_data(self, topics: Sequence[str], tenure: Tenure | None) -> bytes | None:
        return write_previous(tenure.partitions, tenure.generation) if tenure is not None else None


class CooperativeStickyAssignor(Assignor):
    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, group: GroupToAssign) -> dict[str, list[TopicPartition]]:
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

    def user_data(self, topics: Sequence[str], tenure: Tenure | None) -> bytes | None:
        return _GENERATION.pack(tenure.generation if tenure is not None else NO_GENERATION)


def _claim_of_eager(member: MemberToAssign) -> Claim:
    try:
        return read_previous(member.user_data) if member.user_data else ((), NO_GENERATION)
    except MalformedMessage:
        return (), NO_GENERATION  # what another program wrote there says nothing; the member begins anew


def _claim_of_cooperative(member: MemberToAssign) -> Claim:
    generation = member.generation
    if generation == NO_GENERATION and member.user_data and len(member.user_data) >= _GENERATION.size:
        generation = _GENERATION.unpack_from(member.user_data)[
            0
        ]  # before version 2 it had no field of its own
    return member.owned, generation


def _owners(group: GroupToAssign, claims: dict[str, Claim]) -> dict[TopicPartition, str]:
    """Who had what, as far as it may keep it: of several claims the newest is right, and of equal ones none."""
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


def _is_wanted(group: GroupToAssign, member: MemberToAssign, partition: TopicPartition) -> bool:
    return partition.topic in member.topics and 0 <= partition.partition < group.partitions(partition.topic)
