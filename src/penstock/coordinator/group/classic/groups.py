"""Classic groups in a shard: requests of members, describe, and replay.

The decision itself changes a classic group, before its record is written. So replay only creates groups: while the
shard is loading, and when a decision has prepared a new group (`adopt`) that must not exist before its record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.join import Joining, accepts, join_as_new, rejoin
from penstock.coordinator.group.classic.leave import leave, leave_response, leaving_members
from penstock.coordinator.group.classic.member import join_error, sync_error
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
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
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
        """The new group of the current decision, and why it has to be rebalanced. If its record is refused, the next
        one replaces it."""
        self._is_serving = False

    # -- the APIs

    def join(
        self, request: JoinGroupRequest, *, client: Client, version: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        joining = Joining.of(request, client=client, version=version)
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return self._join_first(group, joining)
        size_max = self._context.dependencies.settings().get("group.max.size")
        if not accepts(group, request.member_id, size_max=size_max):
            return self._reject_full(group, joining)
        if request.member_id:
            return rejoin(self._rebalances, group, joining)
        return join_as_new(self._rebalances, group, joining)

    def sync(self, request: SyncGroupRequest, *, version: int) -> CoordinatorResult[SyncGroupResponse]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return CoordinatorResult(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        return sync(self._rebalances, group, request)

    def heartbeat(self, request: HeartbeatRequest, *, version: int) -> CoordinatorResult[HeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return CoordinatorResult(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        # The most frequent request of a coordinator: bench "2,000 groups heartbeating, CPU".
        member = group.members.get(request.member_id)
        if member is None or request.group_instance_id is not None:
            error = group.check_member(request.member_id, request.group_instance_id)
            if member is None or error is not ErrorCode.NONE:
                return CoordinatorResult(HeartbeatResponse(error_code=error))
        if request.generation_id != group.generation:
            return CoordinatorResult(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        group.keep_alive(member)
        if group.state is State.PREPARING_REBALANCE:
            return CoordinatorResult(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return CoordinatorResult(HeartbeatResponse())

    def leave(self, request: LeaveGroupRequest, *, version: int) -> CoordinatorResult[LeaveGroupResponse]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            identities = leaving_members(request, version=version)
            unknown = [(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in identities]
            return CoordinatorResult(leave_response(unknown, version=version))
        return leave(self._rebalances, group, request, version=version)

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        """Only a stable group has a protocol; otherwise the metadata of members is not shown."""
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

    # -- migration

    def adopt(self, group: ClassicGroup, *, rebalance_reason: str | None = None) -> CoordinatorRecord:
        """The record that adds `group` when it is replayed; with a reason, the group is then rebalanced.

        The caller must write the record, after those that remove the old group.
        """
        self._adopted = (group, rebalance_reason)
        return record_of(group, assignments_of(group), has_leader=rebalance_reason is None)

    # -- for the shard

    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        return {GroupMetadataKey: self._replay}

    def loaded(self) -> None:
        self._is_serving = True
        size_max = self._context.dependencies.settings().get("group.max.size")
        for group in [*self._groups.values()]:
            if isinstance(group, ClassicGroup):
                self._start_sessions(group)
                if len(group.members) > size_max:
                    reason = f"it was loaded with {len(group.members)} members, more than group.max.size={size_max}"
                    self._rebalances.prepare(group, reason)
                elif group.has_to_rebalance:
                    self._rebalances.prepare(group, "it was downgraded from a consumer group")

    def unloaded(self) -> None:
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                self._rebalances.close(group, ErrorCode.NOT_COORDINATOR)

    def _replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group_id = key.group
        current = self._groups.get(group_id)
        if value is None:
            if isinstance(current, ClassicGroup):
                # Waiting members of a group that is migrated have to rejoin (KIP-848).
                self._rebalances.close(current, ErrorCode.REBALANCE_IN_PROGRESS)
                del self._groups[group_id]
        elif not self._is_serving:
            self._groups[group_id] = group_of(self._context, group_id, value)
        elif not isinstance(current, ClassicGroup):
            self._replay_adopted(group_id)

    def _replay_adopted(self, group_id: str) -> None:
        assert self._adopted is not None, "a record of a group that no decision has prepared"
        group, rebalance_reason = self._adopted
        assert group.group_id == group_id, "a record of another group than the decision has prepared"
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

    def _join_first(self, other: Group | None, joining: Joining) -> CoordinatorResult[JoinGroupResponse]:
        """The group does not exist, or is an empty group of another type, which is replaced."""
        request = joining.request
        if other is not None and not other.is_empty:
            return joining.error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if request.member_id:
            return joining.error(ErrorCode.UNKNOWN_MEMBER_ID)
        group = ClassicGroup(self._context, request.group_id)
        new = record_of_new(group)
        result = join_as_new(self._rebalances, group, joining)
        if not group.members and not group.pending_ids:
            return result  # the member was refused, so the group is not created
        assert not result.records, "a new group writes nothing else"
        self._adopted = (group, None)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and group.state is not State.DEAD:
                self._rebalances.close(group, error)

        removal = [] if other is None else other.tombstones()
        created = CoordinatorResult(result.response, [*removal, new], written)
        return created.and_log(
            logger, f"created classic group {request.group_id}, requested by {joining.client}"
        )

    def _reject_full(self, group: ClassicGroup, joining: Joining) -> CoordinatorResult[JoinGroupResponse]:
        """The group is full. A member that is refused is removed, so that the others do not wait for it."""
        records: list[CoordinatorRecord] = []
        member = group.members.get(joining.request.member_id)
        if member is not None:
            group.remove(member)
            records = self._rebalances.complete_if_all_joined(group)
        return CoordinatorResult(join_error(ErrorCode.GROUP_MAX_SIZE_REACHED), records)
