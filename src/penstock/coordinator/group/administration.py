"""ListGroups, DescribeGroups and DeleteGroups.

DescribeGroups only describes classic groups, with those that only have offsets. Newer types have their own APIs
(ConsumerGroupDescribe, StreamsGroupDescribe).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.offsets.offsets import Offsets
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeletableGroupResult
from penstock.protocol.messages.describe_groups import DescribedGroup
from penstock.protocol.messages.list_groups import ListedGroup

NOT_FOUND_VERSION = 6
"""Of DescribeGroups: older versions return a dead group."""


class Administration:
    def __init__(self, context: GroupContext, offsets: Offsets, classic: ClassicGroups) -> None:
        self._context = context
        self._offsets = offsets
        self._classic = classic

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """All groups, or those with these states and types. Their case does not matter; unknown ones match nothing."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listed: list[ListedGroup] = []
        for group in self._context.groups.committed_items().values():
            state, kind = group.state_name(committed=True), group.type.value
            if wanted_states and state.lower() not in wanted_states:
                continue
            if wanted_types and kind.lower() not in wanted_types:
                continue
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=state,
                    group_type=kind,
                )
            )
        return listed

    def describe(self, group_id: str, *, version: int) -> DescribedGroup:
        group = self._context.groups.committed(group_id)
        if isinstance(group, ClassicGroup):
            return self._classic.describe(group)
        described = DescribedGroup(
            group_id=group_id, group_state="Dead", protocol_type="", protocol_data="", members=[]
        )
        if version >= NOT_FOUND_VERSION:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = (
                f"Group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a classic group; use the API for its type."
            )
        return described

    def delete(self, group_ids: Iterable[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        """Delete groups without members, with their offsets. Each has its own result."""
        records: list[CoordinatorRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in group_ids:
            error = ErrorCode.NONE
            group = self._context.groups.get(group_id)
            if group is None:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            else:
                try:
                    group.check_delete()
                    records += self._offsets.delete_all(group_id)
                    records += group.tombstones()
                except Refused as refusal:
                    error = refusal.error
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return CoordinatorResult(results, records)
