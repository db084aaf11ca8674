"""Leading a member from what it has to what it shall have.

Revoke first: as long as the member has something that it shall give up, it stays in its epoch, is told what it may
keep, and nothing new is given to it. When it reports that it has let go it moves to the target's epoch and receives,
of what it shall have, whatever nobody else has; the rest comes with later heartbeats, as the others let go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.coordinator.group.consumer.assignment import (
    NO_PARTITIONS,
    NOTHING,
    Assignment,
    Owned,
    TopicPartitions,
    holds_any,
)
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid


class Target(NamedTuple):
    """What one member shall have, and from which epoch on."""

    epoch: int
    partitions: Assignment


class Surrounding(NamedTuple):
    """What else matters to one member's next step."""

    topics: AbstractSet[Uuid]
    """The ids of the topics that it subscribes to now; the target may be older than its subscription."""
    owner_of: Callable[[Uuid, int], str | None]
    reported: Sequence[TopicPartitions] | None
    """What the member says that it has; None: it says nothing of it."""


def reconcile(
    member: ConsumerMember, target: Target, around: Surrounding, *, has_changed_subscription: bool
) -> ConsumerMember:
    """The member after its next step; itself where there is none. `Refused` where it has to begin anew."""
    if member.state is MemberState.UNKNOWN:
        if around.reported is None or around.reported:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member has an unknown state, written by newer software; give up all partitions and rejoin.",
            )
        return _step(member, target, around, epoch_while_revoking=target.epoch)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        is_waiting = _still_has(member.revoking, around)
    else:
        is_waiting = member.is_reconciled_to(target.epoch)
    if not is_waiting:
        return _step(member, target, around, epoch_while_revoking=member.epoch)
    return _give_up_unsubscribed(member, around) if has_changed_subscription else member


def _step(
    member: ConsumerMember, target: Target, around: Surrounding, *, epoch_while_revoking: int
) -> ConsumerMember:
    kept: dict[Uuid, Mapping[int, int]] = {}
    to_revoke: dict[Uuid, Mapping[int, int]] = {}
    to_give: dict[Uuid, list[int]] = {}
    waits_for_others = False
    for topic_id in {**member.assigned, **target.partitions}:
        wanted = (
            target.partitions.get(topic_id, NO_PARTITIONS) if topic_id in around.topics else NO_PARTITIONS
        )
        current = member.assigned.get(topic_id, {})
        keep = {partition: epoch for partition, epoch in current.items() if partition in wanted}
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(current):
            to_revoke[topic_id] = {
                partition: epoch for partition, epoch in current.items() if partition not in wanted
            }
        for partition in wanted:
            if partition in keep:
                continue
            # What the member itself was about to give up is free for it.
            if around.owner_of(topic_id, partition) is None or partition in member.revoking.get(topic_id, ()):
                to_give.setdefault(topic_id, []).append(partition)
            else:
                waits_for_others = True
    if to_revoke and _still_has(to_revoke, around):
        return member.moved_to(
            epoch_while_revoking, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=to_revoke
        )
    for topic_id, partitions in to_give.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(sorted(partitions), target.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if waits_for_others else MemberState.STABLE
    return member.moved_to(target.epoch, state=state, assigned=kept, revoking=NOTHING)


def _give_up_unsubscribed(member: ConsumerMember, around: Surrounding) -> ConsumerMember:
    """Nothing else to do in this epoch, but what the member has unsubscribed from should not wait for the next one."""
    dropped = [topic_id for topic_id in member.assigned if topic_id not in around.topics]
    if not dropped:
        return member
    kept = {
        topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in around.topics
    }
    revoking = dict(member.revoking)
    for topic_id in dropped:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    if _still_has(revoking, around):
        return member.moved_to(
            member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
        )
    return member.moved_to(member.epoch, state=member.state, assigned=kept, revoking=member.revoking)


def _still_has(partitions: Owned, around: Surrounding) -> bool:
    """Whether the member has any of these, or leaves it open."""
    return around.reported is None or holds_any(partitions, around.reported)
