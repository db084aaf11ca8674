"""A classic group as a record, and back.

A record has the whole group, so only the last one counts. It is written when a generation has its assignments, when a
static member gets a new id, and when a group is created or becomes empty. A record with members but without a leader
is that of a downgraded group that still has to be rebalanced.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.records.classic import (
    WRITTEN_VERSION,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from penstock.coordinator.result import CoordinatorRecord

UNKNOWN = -1


def record_of(
    group: ClassicGroup, assignments: Mapping[str, bytes], *, has_leader: bool = True
) -> CoordinatorRecord:
    """The group with these assignments."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader_id if has_leader else None,
            current_state_timestamp=UNKNOWN if group.state_since_ms is None else group.state_since_ms,
            members=[
                _describe(member, group.protocol_name, assignments[member.member_id])
                for member in group.members.values()
            ],
        ),
        WRITTEN_VERSION,
    )


def record_of_new(group: ClassicGroup) -> CoordinatorRecord:
    """A new group: its first member is written with the first generation."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=UNKNOWN if group.state_since_ms is None else group.state_since_ms,
            members=[],
        ),
        WRITTEN_VERSION,
    )


def assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    return {member_id: member.assignment for member_id, member in group.members.items()}


def group_of(context: GroupContext, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(
        context,
        group_id,
        state=State.STABLE if value.members else State.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
    )
    group.state_since_ms = None if value.current_state_timestamp == UNKNOWN else value.current_state_timestamp
    for member in value.members:
        group.add(_restore(member, value.protocol))
    group.has_to_rebalance = bool(value.members) and value.leader is None
    if value.leader in group.members:
        group.leader_id = value.leader
    group.note_subscriptions()
    return group


def _describe(member: Member, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
    assert protocol_name is not None, "a generation with members has a protocol"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.protocols[protocol_name],
        assignment=assignment,
    )


def _restore(member: MemberMetadata, protocol_name: str | None) -> Member:
    """The record only has the selected protocol."""
    rebalance_timeout_ms = member.rebalance_timeout
    return Member(
        member.member_id,
        instance_id=member.group_instance_id,
        client=Client(member.client_id, member.client_host),
        rebalance_timeout_ms=member.session_timeout
        if rebalance_timeout_ms == UNKNOWN
        else rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout,
        protocols={protocol_name or "": member.subscription},
        assignment=member.assignment,
    )
