"""What each record of a streams group does when it is replayed.

Nothing else changes what is replicated. Records may come in any order that compaction leaves, and tombstones for what
was never seen; whatever comes first makes the group. Timers of a member that is gone are cancelled here, because only
here it is certain that it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.records.streams import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from penstock.coordinator.group.streams.group import GroupEpoch, StreamsGroup, TargetEpoch
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import Tasks
from penstock.coordinator.group.streams.topology import Topology

NO_TARGET_EPOCH = TargetEpoch(-1, 0)


class Timer:
    """Names of a group's timers."""

    @staticmethod
    def session(group_id: str, member_id: str) -> tuple[str, str, str]:
        return ("streams session", group_id, member_id)

    @staticmethod
    def rebalance(group_id: str, member_id: str) -> tuple[str, str, str]:
        return ("streams rebalance", group_id, member_id)

    @staticmethod
    def first_assignment(group_id: str) -> tuple[str, str]:
        return ("streams first assignment", group_id)


class StreamsReplay:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self.replays: dict[type, Callable[[Any, Any], None]] = {
            StreamsGroupMetadataKey: self._replay_epoch,
            StreamsGroupMemberMetadataKey: self._replay_member,
            StreamsGroupTargetAssignmentMetadataKey: self._replay_target_epoch,
            StreamsGroupTargetAssignmentMemberKey: self._replay_target,
            StreamsGroupCurrentMemberAssignmentKey: self._replay_place,
            StreamsGroupTopologyKey: self._replay_topology,
        }

    def find(self, group_id: str) -> StreamsGroup | None:
        group = self._context.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def _find_or_make(self, group_id: str) -> StreamsGroup:
        """A group of offsets alone may stand in the way: it gives way, its offsets stay."""
        group = self.find(group_id)
        if group is None:
            group = self._context.groups[group_id] = StreamsGroup(group_id, self._context)
        return group

    def _replay_epoch(self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
        if value is not None:
            settings = {each.key: each.value for each in value.last_assignment_configs or ()}
            self._find_or_make(key.group_id).set_epoch(
                GroupEpoch(value.epoch, value.metadata_hash, value.validated_topology_epoch, settings)
            )
        elif self.find(key.group_id) is not None:
            del self._context.groups[key.group_id]
            self._context.timers.cancel(Timer.first_assignment(key.group_id))

    def _replay_topology(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        if value is not None:
            self._find_or_make(key.group_id).set_topology(Topology.read(value))
        elif (group := self.find(key.group_id)) is not None:
            group.set_topology(None)

    def _replay_member(
        self, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._find_or_make(key.group_id)
            group.put_member(_member(group, key.member_id).described_by(value))
        elif (group_or_none := self.find(key.group_id)) is not None:
            group_or_none.remove_member(key.member_id)
            self._context.timers.cancel(Timer.session(key.group_id, key.member_id))
            self._context.timers.cancel(Timer.rebalance(key.group_id, key.member_id))

    def _replay_place(
        self,
        key: StreamsGroupCurrentMemberAssignmentKey,
        value: StreamsGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._find_or_make(key.group_id)
            group.put_member(_member(group, key.member_id).placed_by(value))
        elif (known := self.find(key.group_id)) is not None and key.member_id in known.members:
            known.put_member(known.members[key.member_id].displaced())

    def _replay_target_epoch(
        self,
        key: StreamsGroupTargetAssignmentMetadataKey,
        value: StreamsGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            epoch = TargetEpoch(value.assignment_epoch, value.assignment_timestamp)
            self._find_or_make(key.group_id).set_target_epoch(epoch)
        elif (group := self.find(key.group_id)) is not None:
            group.set_target_epoch(NO_TARGET_EPOCH)

    def _replay_target(
        self,
        key: StreamsGroupTargetAssignmentMemberKey,
        value: StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            target = Tasks.read(value.active_tasks, value.standby_tasks, value.warmup_tasks)
            self._find_or_make(key.group_id).targets[key.member_id] = target
        elif (group := self.find(key.group_id)) is not None:
            group.targets.pop(key.member_id, None)


def _member(group: StreamsGroup, member_id: str) -> StreamsMember:
    return group.members.get(member_id) or StreamsMember(member_id)
