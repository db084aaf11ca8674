"""JoinGroup to a classic group.

The deferred response of a waiting member is in its `Member`; `rebalance` completes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import (
    Member,
    Protocols,
    join_error,
    read_protocols,
    rebalance_timeout_of,
)
from penstock.coordinator.group.classic.persistence import assignments_of, record_of
from penstock.coordinator.group.classic.rebalance import NEW_MEMBER_TIMEOUT_MS, Rebalances, current_generation
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.client import Client
from penstock.coordinator.result import CoordinatorResult, DeferredResponse
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_VERSION = 4  # of JoinGroup (KIP-394)
SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup request with its decoded protocols."""

    request: JoinGroupRequest
    client: Client
    version: int
    protocols: Protocols

    @classmethod
    def of(cls, request: JoinGroupRequest, *, client: Client, version: int) -> Joining:
        return cls(request, client, version, read_protocols(request.protocols))

    @property
    def rebalance_timeout_ms(self) -> int:
        return rebalance_timeout_of(self.request, self.version)

    @property
    def reason(self) -> str:
        """The reason from the client (KIP-800)."""
        return self.request.reason or "no reason given"

    def as_member(self, member_id: str) -> Member:
        return Member(
            member_id,
            instance_id=self.request.group_instance_id,
            client=self.client,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
        )

    def error(self, error: ErrorCode, member_id: str | None = None) -> CoordinatorResult[JoinGroupResponse]:
        return CoordinatorResult(
            join_error(error, self.request.member_id if member_id is None else member_id)
        )


def accepts(group: ClassicGroup, member_id: str, *, size_max: int) -> bool:
    """Whether the group has room for the member. During a rebalance only members that have joined count, so a group
    above a lowered limit loses the last ones to rejoin."""
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return (member is not None and member.join_wait is not None) or group.joined_count < size_max
    if group.state in {State.COMPLETING_REBALANCE, State.STABLE}:
        return member is not None or len(group.members) < size_max
    return True


def join_as_new(
    rebalances: Rebalances, group: ClassicGroup, joining: Joining
) -> CoordinatorResult[JoinGroupResponse]:
    """A request without a member id."""
    request = joining.request
    if not group.supports(request.protocol_type, joining.protocols):
        return joining.error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    instance_id = request.group_instance_id
    member_id = group.make_member_id(joining.client.client_id, instance_id)
    if instance_id is not None:
        current_id = group.static_ids.get(instance_id)
        if current_id is not None:
            return _replace_static_member(rebalances, group, group.members[current_id], member_id, joining)
    elif joining.version >= MEMBER_ID_REQUIRED_VERSION:
        rebalances.add_pending(group, member_id, request.session_timeout_ms)
        return joining.error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _add_member(rebalances, group, member_id, joining)


def rejoin(
    rebalances: Rebalances, group: ClassicGroup, joining: Joining
) -> CoordinatorResult[JoinGroupResponse]:
    """A request with a member id: of a member, or of a client that just got the id."""
    request = joining.request
    member_id = request.member_id
    if not group.supports(request.protocol_type, joining.protocols):
        return joining.error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id in group.pending_ids:
        if request.group_instance_id is not None:
            # Static members do not get pending ids. Kafka answers UNKNOWN_SERVER_ERROR too.
            return joining.error(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        rebalances.remove_pending(group, member_id)
        return _add_member(rebalances, group, member_id, joining)
    error = group.check_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return joining.error(error)
    member = group.members[member_id]
    state = group.state
    if state is State.PREPARING_REBALANCE:
        return _update_member(rebalances, group, member, joining)
    # A member that rejoins with the same metadata may have missed its response. But the leader of a stable group
    # rejoins to compute new assignments, for example for new partitions.
    if member.has_same_protocols(joining.protocols) and not (
        state is State.STABLE and group.leader_id == member_id
    ):
        return CoordinatorResult(current_generation(group, member))
    return _update_member(rebalances, group, member, joining)


def _add_member(
    rebalances: Rebalances, group: ClassicGroup, member_id: str, joining: Joining
) -> CoordinatorResult[JoinGroupResponse]:
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.has_new_member = True
    if not group.members:
        group.protocol_type = joining.request.protocol_type
    member = joining.as_member(member_id)
    member.is_new = True
    group.add(member)
    response = _wait(group, member)
    rebalances.start_session(group, member, NEW_MEMBER_TIMEOUT_MS)
    reason = f"{member_id} joins: {joining.reason}"
    return CoordinatorResult(response, rebalances.start_or_complete(group, reason))


def _update_member(
    rebalances: Rebalances, group: ClassicGroup, member: Member, joining: Joining
) -> CoordinatorResult[JoinGroupResponse]:
    _update_metadata(group, member, joining)
    response = _wait(group, member)
    reason = f"{member.member_id} rejoins: {joining.reason}"
    return CoordinatorResult(response, rebalances.start_or_complete(group, reason))


def _replace_static_member(
    rebalances: Rebalances, group: ClassicGroup, old: Member, member_id: str, joining: Joining
) -> CoordinatorResult[JoinGroupResponse]:
    """A static member rejoins with a new id. If nothing changes for the others, there is no rebalance."""
    old_leader_id = group.leader_id
    new = joining.as_member(member_id)
    new.assignment = old.assignment
    group.replace(old, new)
    response = _wait(group, new)
    rebalances.start_session(group, new)
    reason = f"static member {new.instance_id} rejoins: {joining.reason}"
    if group.state is not State.STABLE or group.select_protocol() != group.protocol_name:
        # The leader may be assigning partitions to the old id.
        return CoordinatorResult(response, rebalances.start_or_complete(group, reason))

    def written(error: ErrorCode) -> None:
        if group.members.get(member_id) is not new or new.join_wait is None:
            return  # it has got another response, or left
        if error is not ErrorCode.NONE:
            _undo_replacement(rebalances, group, old, new, old_leader_id, error)
        elif group.state is not State.STABLE:
            return  # a rebalance has started, and will respond
        elif joining.version >= SKIP_ASSIGNMENT_VERSION:
            group.complete_join(new, current_generation(group, new, skips_assignment=True))
        else:
            # An older client that becomes the leader would assign again, so it gets its old id as the leader (KIP-814).
            response = current_generation(group, new)
            response.leader = old_leader_id or ""
            response.members = []
            group.complete_join(new, response)

    return CoordinatorResult(response, [record_of(group, assignments_of(group))], written)


def _undo_replacement(
    rebalances: Rebalances,
    group: ClassicGroup,
    old: Member,
    new: Member,
    old_leader_id: str | None,
    error: ErrorCode,
) -> None:
    """The record of the replacement was refused."""
    response = current_generation(group, new)
    response.error_code, response.member_id, response.members = error, "", []
    response.leader = old_leader_id or ""
    group.complete_join(new, response)
    group.replace(new, old)
    rebalances.start_session(group, old)


def _update_metadata(group: ClassicGroup, member: Member, joining: Joining) -> None:
    group.update(
        member,
        protocols=joining.protocols,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.request.session_timeout_ms,
    )


def _wait(group: ClassicGroup, member: Member) -> DeferredResponse[JoinGroupResponse]:
    response: DeferredResponse[JoinGroupResponse] = DeferredResponse()
    group.wait_for_join(member, response)
    return response
