"""Classic groups as a shard sees them: the four APIs, the administrators' question, and replay.

A group that is served is ahead of its record: it was changed by the decision that the record stands for.
So replay builds a group only where none is: while a shard is loaded, and where a decision has prepared one
(`adopt`) that must not come into being unless its record is in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.join import Joining, has_room, join_again, join_as_new
from penstock.coordinator.group.classic.leave import leave, leave_response, leaving_members
from penstock.coordinator.group.classic.member import join_refusal, sync_refusal
from penstock.coordinator.group.classic.persistence import (
    assignments_of,
    group_of,
    record_of,
    record_of_new,
)
from penstock.coordinator.group.classic.rebalance import Rebalances
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.classic.sync import sync
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group
from penstock.coordinator.group.records.classic import GroupMetadataKey, GroupMetadataValue
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


class ClassicGroups:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._groups = context.groups
        self._rebalances = Rebalances(context)
        self._adopted: tuple[ClassicGroup, str | None] | None = None
        """Of the decision under way: a group to come, and why it has to be rebalanced then. If its record
        was refused, the next one takes its place."""
        self._is_serving = False

    # -- the APIs

    def join(self, request: JoinGroupRequest, *, client: Client, version: int) -> Outcome[JoinGroupResponse]:
        joining = Joining.of(request, client=client, version=version)
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return self._join_first(group, joining)
        size_max = self._context.around.settings().get("group.max.size")
        if not has_room(group, request.member_id, size_max=size_max):
            return self._turn_away(group, joining)
        if request.member_id:
            return join_again(self._rebalances, group, joining)
        return join_as_new(self._rebalances, group, joining)

    def sync(self, request: SyncGroupRequest, *, version: int) -> Outcome[SyncGroupResponse]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return Outcome(sync_refusal(ErrorCode.UNKNOWN_MEMBER_ID))
        return sync(self._rebalances, group, request)

    def heartbeat(self, request: HeartbeatRequest, *, version: int) -> Outcome[HeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return Outcome(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        # Almost every request that a coordinator sees: bench "2,000 groups heartbeating, CPU".
        member = group.members.get(request.member_id)
        if member is None or request.group_instance_id is not None:
            error = group.check_member(request.member_id, request.group_instance_id)
            if member is None or error is not ErrorCode.NONE:
                return Outcome(HeartbeatResponse(error_code=error))
        if request.generation_id != group.generation:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        group.keep_alive(member)
        if group.state is State.PREPARING_REBALANCE:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Outcome(HeartbeatResponse())

    def leave(self, request: LeaveGroupRequest, *, version: int) -> Outcome[LeaveGroupResponse]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            identities = leaving_members(request, version=version)
            unknown = [(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in identities]
            return Outcome(leave_response(unknown, version=version))
        return leave(self._rebalances, group, request, version=version)

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        """Only a stable group has a protocol in force; before that members' metadata is not told."""
        name = group.protocol_name if group.state is State.STABLE else None
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type,
            protocol_data=name or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client.client_id,
                    client_host=member.client.host,
                    member_metadata=b"" if name is None else member.protocols[name],
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    # -- for groups that change their type

    def adopt(self, group: ClassicGroup, *, rebalance_reason: str | None = None) -> CoordinatorRecord:
        """The record that puts `group` in its place when it is replayed; with a reason, it is then
        rebalanced.

        The decision that asks for it must return the record, after those that take away what stands there.
        """
        self._adopted = (group, rebalance_reason)
        return record_of(group, assignments_of(group), has_leader=rebalance_reason is None)

    def prepare_rebalance(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Let the members of a group that is served join again. The records are those of a group without
        members."""
        return self._rebalances.prepare(group, reason)

    # -- for the shard

    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        return {GroupMetadataKey: self._replay}

    def loaded(self) -> None:
        self._is_serving = True
        size_max = self._context.around.settings().get("group.max.size")
        for group in [*self._groups.values()]:
            if isinstance(group, ClassicGroup):
                self._start_sessions(group)
                if len(group.members) > size_max:
                    reason = f"it was loaded with {len(group.members)} members, and may have {size_max}"
                    self._rebalances.prepare(group, reason)
                elif group.has_to_rebalance:
                    self._rebalances.prepare(group, "it was loaded as it was when it became a classic one")

    def unloaded(self) -> None:
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                self._rebalances.abandon(group, ErrorCode.NOT_COORDINATOR)

    def _replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group_id = key.group
        current = self._groups.get(group_id)
        if value is None:
            if isinstance(current, ClassicGroup):
                # Members that wait here are those of a group that takes another type: they shall join that
                # (KIP-848).
                self._rebalances.abandon(current, ErrorCode.REBALANCE_IN_PROGRESS)
                del self._groups[group_id]
        elif not self._is_serving:
            self._groups[group_id] = group_of(self._context, group_id, value)
        elif not isinstance(current, ClassicGroup):
            self._replay_adopted(group_id)

    def _replay_adopted(self, group_id: str) -> None:
        assert self._adopted is not None, "a group from nowhere"
        group, rebalance_reason = self._adopted
        assert group.group_id == group_id, "another group was announced"
        self._adopted = None
        self._groups[group_id] = group
        if group.state is State.STABLE:
            self._start_sessions(group)
        if rebalance_reason is not None:
            self._rebalances.prepare(group, rebalance_reason)

    def _start_sessions(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            self._rebalances.start_session(group, member)

    # -- helpers of join

    def _join_first(self, other: Group | None, joining: Joining) -> Outcome[JoinGroupResponse]:
        """Nobody is there, or an empty group of another type, which gives way."""
        request = joining.request
        if other is not None and not other.is_empty:
            return joining.refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if request.member_id:
            return joining.refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        group = ClassicGroup(self._context, request.group_id)
        new = record_of_new(group)
        outcome = join_as_new(self._rebalances, group, joining)
        if not group.members and not group.pending_ids:
            return outcome  # it was refused, and leaves no trace
        assert not outcome.records, "a group is not empty again before it begins"
        self._adopted = (group, None)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and group.state is not State.DEAD:
                self._rebalances.abandon(group, error)

        removal = [] if other is None else other.tombstones()
        created = Outcome(outcome.response, [*removal, new], written)
        return created.and_log(
            logger, f"created classic group {request.group_id}, requested by {joining.client}"
        )

    def _turn_away(self, group: ClassicGroup, joining: Joining) -> Outcome[JoinGroupResponse]:
        """The group is full. If it was a member that came back too late, the others need not wait for it."""
        records: list[CoordinatorRecord] = []
        member = group.members.get(joining.request.member_id)
        if member is not None:
            group.remove(member)
            records = self._rebalances.complete_if_all_joined(group)
        return Outcome(join_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED), records)
