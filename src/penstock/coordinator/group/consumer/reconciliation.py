"""One step of a member from its current assignment to its target assignment.

Revocation comes first: while the member owns partitions that are not in its target, it keeps its epoch and receives
nothing new. When it reports that it has revoked them, it moves to the target's epoch and receives the partitions of
its target that no other member owns. It receives the others with later heartbeats, as their owners revoke them.
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
    owns_any,
)
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.modern.member import MemberState
from penstock.protocol.types import Uuid


class Target(NamedTuple):
    """The target assignment of one member, and its epoch."""

    epoch: int
    partitions: Assignment


class ReconciliationContext(NamedTuple):
    topics: AbstractSet[Uuid]
    """The ids of the topics that the member subscribes to now; the target may be older than its subscription."""
    owner_of: Callable[[Uuid, int], str | None]
    reported: Sequence[TopicPartitions] | None
    """The partitions that the member reports to own; None: the request does not have them."""


def reconcile(
    member: ConsumerMember, target: Target, context: ReconciliationContext, *, has_changed_subscription: bool
) -> ConsumerMember:
    """The member after its next step; unchanged if it has to wait. `Refused` if it has to rejoin."""
    if member.state is MemberState.UNKNOWN:
        member.check_state(owns_nothing=context.reported is not None and not context.reported)
        return _step(member, target, context, epoch_while_revoking=target.epoch)
    if member.state is MemberState.UNREVOKED:
        is_waiting = _may_own_any(member.revoking, context)
    else:
        is_waiting = member.is_reconciled_to(target.epoch)
    if not is_waiting:
        return _step(member, target, context, epoch_while_revoking=member.epoch)
    return _revoke_unsubscribed(member, context) if has_changed_subscription else member


def _step(
    member: ConsumerMember, target: Target, context: ReconciliationContext, *, epoch_while_revoking: int
) -> ConsumerMember:
    kept: dict[Uuid, Mapping[int, int]] = {}
    to_revoke: dict[Uuid, Mapping[int, int]] = {}
    to_assign: dict[Uuid, list[int]] = {}
    is_waiting_for_others = False
    for topic_id in {**member.assigned, **target.partitions}:
        wanted = (
            target.partitions.get(topic_id, NO_PARTITIONS) if topic_id in context.topics else NO_PARTITIONS
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
            # The member may get back partitions that it was about to revoke itself.
            if context.owner_of(topic_id, partition) is None or partition in member.revoking.get(
                topic_id, ()
            ):
                to_assign.setdefault(topic_id, []).append(partition)
            else:
                is_waiting_for_others = True
    if to_revoke and _may_own_any(to_revoke, context):
        return member.moved_to(
            epoch_while_revoking, state=MemberState.UNREVOKED, assigned=kept, revoking=to_revoke
        )
    for topic_id, partitions in to_assign.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(sorted(partitions), target.epoch)}
    state = MemberState.UNRELEASED if is_waiting_for_others else MemberState.STABLE
    return member.moved_to(target.epoch, state=state, assigned=kept, revoking=NOTHING)


def _revoke_unsubscribed(member: ConsumerMember, context: ReconciliationContext) -> ConsumerMember:
    """Revoke the topics that the member has unsubscribed from, without waiting for the next epoch."""
    dropped = [topic_id for topic_id in member.assigned if topic_id not in context.topics]
    if not dropped:
        return member
    kept = {
        topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in context.topics
    }
    revoking = dict(member.revoking)
    for topic_id in dropped:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    if _may_own_any(revoking, context):
        return member.moved_to(member.epoch, state=MemberState.UNREVOKED, assigned=kept, revoking=revoking)
    return member.moved_to(member.epoch, state=member.state, assigned=kept, revoking=member.revoking)


def _may_own_any(partitions: Owned, context: ReconciliationContext) -> bool:
    """Whether the member reports any of these partitions, or reports nothing at all."""
    return context.reported is None or owns_any(partitions, context.reported)
