"""LeaveGroup to a classic group: members leave, or an administrator removes them (KIP-345)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.rebalance import Rebalances
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_VERSION = 3  # before it, a request names one member, and the response has one error


def leave(
    rebalances: Rebalances, group: ClassicGroup, request: LeaveGroupRequest, *, version: int
) -> CoordinatorResult[LeaveGroupResponse]:
    results = [
        (identity, _remove(rebalances, group, identity))
        for identity in leaving_members(request, version=version)
    ]
    left = [identity.member_id or identity.group_instance_id for identity, error in results if not error]
    records: list[CoordinatorRecord] = []
    if left and group.state is not State.EMPTY:
        records = rebalances.start_or_complete(group, f"{len(left)} members left, {left[0]} first")
    return CoordinatorResult(leave_response(results, version=version), records)


def leaving_members(request: LeaveGroupRequest, *, version: int) -> list[MemberIdentity]:
    return request.members if version >= BATCH_VERSION else [MemberIdentity(member_id=request.member_id)]


def leave_response(
    results: Iterable[tuple[MemberIdentity, ErrorCode]], *, version: int
) -> LeaveGroupResponse:
    members = [
        MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
        )
        for identity, error in results
    ]
    if version < BATCH_VERSION:
        return LeaveGroupResponse(error_code=members[0].error_code)
    return LeaveGroupResponse(members=members)


def _remove(rebalances: Rebalances, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    instance_id = identity.group_instance_id
    if not member_id:
        # An administrator only sends the instance id.
        member_id = "" if instance_id is None else group.static_ids.get(instance_id, "")
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_ids:
        rebalances.remove_pending(group, member_id)
        return ErrorCode.NONE
    error = group.check_member(member_id, instance_id)
    if error is ErrorCode.NONE:
        group.remove(group.members[member_id])
    return error
