"""What administrators ask of groups, whatever their type: list, describe, delete.

DescribeGroups knows classic groups alone, with those that have only offsets; each newer type has an API of its own
for that (ConsumerGroupDescribe, StreamsGroupDescribe).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.offsets import Offsets
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeletableGroupResult
from penstock.protocol.messages.describe_groups import DescribedGroup
from penstock.protocol.messages.list_groups import ListedGroup

NOT_FOUND_VERSION = 6
"""Of DescribeGroups: older clients are told that the group is dead."""


class Administration:
    def __init__(self, context: GroupContext, offsets: Offsets, classic: ClassicGroups) -> None:
        self._context = context
        self._offsets = offsets
        self._classic = classic

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """All groups, or those of some states and types, in whatever case these are written. A state or type that
        does not exist matches nothing."""
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

    def delete(self, group_ids: Iterable[str]) -> Outcome[list[DeletableGroupResult]]:
        """Groups without members, with their offsets; each on its own."""
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
        return Outcome(results, records)
