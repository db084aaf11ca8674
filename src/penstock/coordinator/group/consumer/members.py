"""Which member a request speaks for, and whether it may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.assignment import NOTHING, TopicPartitions, holds_all
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.member_epochs import JOINING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from penstock.coordinator.outcome import CoordinatorRecord
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


def check_room(group: ConsumerGroup, member_id: str, *, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"Group {group.group_id} is full: it has the maximum of {size_max} members.",
        )


def check_epoch(member: ConsumerMember, epoch: int, reported: Sequence[TopicPartitions] | None) -> None:
    """A member may be one epoch behind, where it missed an answer, if all that it has is still its own."""
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    is_behind = epoch == member.previous_epoch and epoch < member.epoch
    if is_behind and reported is not None and holds_all(member.assigned, reported):
        return
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member epoch of {member.member_id} is {member.epoch}, not {epoch}; give up all partitions and rejoin.",
    )


def check_instance(member: ConsumerMember, member_id: str) -> None:
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"The static member {member.instance_id} was fenced: it is now member {member.member_id}, not {member_id}.",
        )


def unknown_instance(instance_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"The group has no static member {instance_id}.")


def check_released(existing: ConsumerMember, member_id: str) -> None:
    """A static member that joins takes the place of one that said it would be back, not of one that is there."""
    if existing.epoch != LEAVING_FOR_A_WHILE_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"The static member {existing.instance_id} is still member {existing.member_id}, which must leave before "
            f"{member_id} can join.",
        )


def replace_member(
    group: ConsumerGroup, existing: ConsumerMember, member_id: str, records: list[CoordinatorRecord]
) -> ConsumerMember:
    """A static member has come back, under a new id as a rule: it takes over what it had, and begins anew."""
    successor = replace(existing, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = group.targets.get(existing.member_id, NOTHING)
    records += writing.removal(group.group_id, existing.member_id)
    records.append(writing.member_record(group.group_id, successor))
    records.append(writing.target_record(group.group_id, member_id, target))
    records.append(writing.place_record(group.group_id, successor))
    return successor


def find_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    member = group.static_member(instance_id)
    if member is None:
        raise unknown_instance(instance_id)
    check_instance(member, member_id)
    return member
