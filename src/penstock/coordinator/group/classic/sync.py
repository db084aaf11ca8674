"""SyncGroup to a classic group: the leader brings the assignments, everyone gets its own when they are
committed."""

from __future__ import annotations

import logging

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member, sync_refusal
from penstock.coordinator.group.classic.persistence import record_of
from penstock.coordinator.group.classic.rebalance import Rebalances, current_assignment
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.outcome import Answer, Outcome
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


def sync(
    rebalances: Rebalances, group: ClassicGroup, request: SyncGroupRequest
) -> Outcome[SyncGroupResponse]:
    error = _check(group, request)
    if error is not ErrorCode.NONE:
        return Outcome(sync_refusal(error))
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        rebalances.note_sync(group, member)
        group.keep_alive(member)  # Kafka does not, and may put out one whom it has just answered
        return Outcome(current_assignment(group, member))
    member.answer_sync(
        sync_refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    )  # it asks again, perhaps by a new connection
    answer: Answer[SyncGroupResponse] = Answer()
    member.sync_wait = answer
    rebalances.note_sync(group, member)
    if group.leader_id != member.member_id or group.generation == group.assigned_generation:
        return Outcome(answer)
    return _assign(rebalances, group, member, request, answer)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differ(request.protocol_name, group.protocol_name):
        # Its own, but not the group's: it joined before a downgrade that chose anew. Kafka calls that inconsistent,
        # which ends a consumer for good; to join again is all that it takes.
        is_its_own = request.protocol_name in group.members[request.member_id].protocols
        return ErrorCode.REBALANCE_IN_PROGRESS if is_its_own else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def _differ(told: str | None, known: str | None) -> bool:
    """Old clients do not tell (KIP-559)."""
    return told is not None and known is not None and told != known


def _assign(
    rebalances: Rebalances,
    group: ClassicGroup,
    leader: Member,
    request: SyncGroupRequest,
    answer: Answer[SyncGroupResponse],
) -> Outcome[SyncGroupResponse]:
    assignments = dict.fromkeys(group.members, b"")
    assignments.update((given.member_id, given.assignment) for given in request.assignments)
    generation = group.assigned_generation = group.generation

    def written(error: ErrorCode) -> None:
        if group.state is not State.COMPLETING_REBALANCE or group.generation != generation:
            return  # the next rebalance has begun, and everyone was told
        if error is ErrorCode.NONE:
            rebalances.give_assignments(group, assignments)
            return
        logger.warning("group %s: the assignments were not written: %s", group.group_id, error.name)
        rebalances.fail_syncs(group, error)
        rebalances.start_or_complete(group, f"{leader.member_id}'s assignments were not written")

    return Outcome(answer, [record_of(group, assignments)], written)
