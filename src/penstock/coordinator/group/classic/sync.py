"""SyncGroup to a classic group: the leader sends the assignments; each member gets its own once they are committed."""

from __future__ import annotations

import logging

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member, sync_error
from penstock.coordinator.group.classic.persistence import record_of
from penstock.coordinator.group.classic.rebalance import Rebalances, current_assignment
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.result import CoordinatorResult, DeferredResponse
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


def sync(
    rebalances: Rebalances, group: ClassicGroup, request: SyncGroupRequest
) -> CoordinatorResult[SyncGroupResponse]:
    error = _check(group, request)
    if error is not ErrorCode.NONE:
        return CoordinatorResult(sync_error(error))
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        rebalances.note_sync(group, member)
        group.keep_alive(member)  # Kafka does not, and may remove a member right after this response
        return CoordinatorResult(current_assignment(group, member))
    member.complete_sync(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))  # a retry, maybe by a new connection
    response: DeferredResponse[SyncGroupResponse] = DeferredResponse()
    member.sync_wait = response
    rebalances.note_sync(group, member)
    if group.leader_id != member.member_id or group.generation == group.assigned_generation:
        return CoordinatorResult(response)
    return _assign(rebalances, group, member, request, response)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differ(request.protocol_name, group.protocol_name):
        # The member supports it, but joined before a downgrade that selected another one. Kafka answers
        # INCONSISTENT_GROUP_PROTOCOL, which is fatal for a consumer; to rejoin is enough.
        is_its_own = request.protocol_name in group.members[request.member_id].protocols
        return ErrorCode.REBALANCE_IN_PROGRESS if is_its_own else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def _differ(sent: str | None, known: str | None) -> bool:
    """Older versions do not send it (KIP-559)."""
    return sent is not None and known is not None and sent != known


def _assign(
    rebalances: Rebalances,
    group: ClassicGroup,
    leader: Member,
    request: SyncGroupRequest,
    response: DeferredResponse[SyncGroupResponse],
) -> CoordinatorResult[SyncGroupResponse]:
    assignments = dict.fromkeys(group.members, b"")
    assignments.update((given.member_id, given.assignment) for given in request.assignments)
    generation = group.assigned_generation = group.generation

    def written(error: ErrorCode) -> None:
        if group.state is not State.COMPLETING_REBALANCE or group.generation != generation:
            return  # the next rebalance has started, and has failed the requests
        if error is ErrorCode.NONE:
            rebalances.give_assignments(group, assignments)
            return
        logger.warning("group %s: the assignments were not written: %s", group.group_id, error.name)
        rebalances.fail_syncs(group, error)
        rebalances.start_or_complete(group, f"{leader.member_id}'s assignments were not written")

    return CoordinatorResult(response, [record_of(group, assignments)], written)
