"""Finding the member that sent a request, and checking that it may."""

from __future__ import annotations

from dataclasses import replace

from penstock.coordinator.group.consumer.assignment import NOTHING
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from penstock.coordinator.result import CoordinatorRecord
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


def check_size(group: ConsumerGroup, member_id: str, *, size_max: int) -> None:
    if member_id not in group.members:
        group.check_size(size_max)


def check_instance(member: ConsumerMember, member_id: str) -> None:
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"The static member {member.instance_id} was fenced: it is now member {member.member_id}, not {member_id}.",
        )


def unknown_instance(instance_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"The group has no static member {instance_id}.")


def check_released(existing: ConsumerMember, member_id: str) -> None:
    """A static member may only replace one that has left temporarily."""
    if existing.epoch != STATIC_LEAVE_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"The static member {existing.instance_id} is still member {existing.member_id}, which must leave before "
            f"{member_id} can join.",
        )


def join_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, records: list[CoordinatorRecord]
) -> ConsumerMember:
    """The member that joins: a known one, a new one, or the successor of a static member.

    A static member usually rejoins with a new member id. It takes over its assignment with epoch 0."""
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    successor = replace(existing, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    target = group.targets.get(existing.member_id, NOTHING)
    records += group.records.member_removal(group.group_id, existing.member_id)
    records.append(group.records.member(group.group_id, successor))
    records.append(group.records.target(group.group_id, member_id, target))
    records.append(group.records.current(group.group_id, successor))
    return successor


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """`Refused` if it is not a member, or if another member has its instance id."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise unknown_instance(instance_id)
    check_instance(member, member_id)
    return member
