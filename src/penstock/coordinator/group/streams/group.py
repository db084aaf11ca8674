"""A streams group: its topology, its members, the tasks that they shall have and those that they have.

What the log holds lives in the timeline; what can be told from that and is needed often is kept beside it, for the
newest state alone, and so is what is not replicated: the topology as the topics let it be, who asked for a shutdown,
the epoch of the endpoints. Only `replaying` calls the methods that change what the log holds; they must take records in
any order in which compaction may leave them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.coordinator.group.assigned import AssignedGroup
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import GroupType, PartitionCheck
from penstock.coordinator.group.member_epochs import COMMIT_VERSION_WITH_EPOCHS, NO_EPOCH
from penstock.coordinator.group.streams import writing
from penstock.coordinator.group.streams.configuring import ConfiguredTopology
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import Task, Tasks
from penstock.coordinator.group.streams.topology import Topology
from penstock.coordinator.outcome import CoordinatorRecord
from penstock.coordinator.timeline import TimelineMap, TimelineValue
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid

STREAMS_PROTOCOL = "streams"
STALE = -1


class GroupEpoch(NamedTuple):
    number: int
    metadata_hash: int
    validated_topology_epoch: int
    """Of the topology whose topics were all there, and as they should be; -1: none."""
    assignment_settings: Mapping[str, str]
    """The group's settings that assignments depend on, as of this epoch."""


class TargetEpoch(NamedTuple):
    number: int
    computed_at_ms: int
    """Wall clock; 0: never."""


class StreamsGroup(AssignedGroup):
    type = GroupType.STREAMS

    def __init__(self, group_id: str, context: GroupContext) -> None:
        timeline = context.timeline
        self.group_id = group_id
        self._image = context.around.image
        self._epoch = TimelineValue(timeline, GroupEpoch(1, 0, -1, {}))
        self._target_epoch = TimelineValue(timeline, TargetEpoch(1, 0))
        self._topology: TimelineValue[Topology | None] = TimelineValue(timeline, None)
        self.members: TimelineMap[str, StreamsMember] = TimelineMap(timeline)
        self.targets: TimelineMap[str, Tasks] = TimelineMap(timeline)
        self._processors: dict[Task, tuple[str, str]] = {}
        """Who has a task active, or has not said yet that it gave it up: member and process."""
        self._keepers: dict[Task, dict[str, str]] = {}
        """Who keeps a copy of a task: processes by member."""
        self.configured: ConfiguredTopology | None = None
        self.refreshed_epoch = STALE
        """The epoch in which the topics were last looked at. One that was never reached, because the log refused it,
        counts for nothing."""
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        """Grows whenever a member with an endpoint gets other tasks."""

    # -- what it is

    @property
    def protocol_type(self) -> str:
        return STREAMS_PROTOCOL

    @property
    def epoch(self) -> GroupEpoch:
        return self._epoch.value

    @property
    def target_epoch(self) -> TargetEpoch:
        return self._target_epoch.value

    @property
    def topology(self) -> Topology | None:
        return self._topology.value

    @property
    def committed_epochs(self) -> tuple[GroupEpoch, TargetEpoch]:
        return self._epoch.committed, self._target_epoch.committed

    @property
    def committed_topology(self) -> Topology | None:
        return self._topology.committed

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_stale(self) -> bool:
        """The topics may have changed since the last epoch."""
        return self.refreshed_epoch == STALE or self.refreshed_epoch > self.epoch.number

    def state_name(self, *, committed: bool = False) -> str:
        if committed:
            epoch, target_epoch = self.committed_epochs
            return _state_of(
                self.members.committed_items().values(), epoch, target_epoch.number, self.committed_topology
            )
        return _state_of(self.members.values(), self.epoch, self.target_epoch.number, self.topology)

    def member(self, member_id: str) -> StreamsMember:
        found = self.members.get(member_id)
        if found is None:
            raise _unknown(member_id, self.group_id)
        return found

    def is_active_anywhere(self, task: Task) -> bool:
        return task in self._processors

    def is_held_in(self, process_id: str, task: Task) -> bool:
        processor = self._processors.get(task)
        if processor is not None and processor[1] == process_id:
            return True
        keepers = self._keepers.get(task)
        return keepers is not None and process_id in keepers.values()

    # -- what offsets and administration ask

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        epoch = generation_or_epoch
        if epoch < 0 and not self.members:
            return None  # a consumer without a group, or an administrator
        if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None  # a producer that knows no members
        member = self.member(member_id)
        if not is_transactional and version < COMMIT_VERSION_WITH_EPOCHS:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                "Members of a streams group must commit with OffsetCommit v9 or newer.",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(f"The member epoch {epoch} is newer than the current epoch {member.epoch}.")
        if self.topology is None:
            raise _stale("The group has no topology.")
        return lambda topic_id, partition: self._check_held(member, epoch, topic_id, partition)

    def _check_held(self, member: StreamsMember, epoch: int, topic_id: Uuid, partition: int) -> None:
        """A member that is behind may commit for tasks that it has held since the epoch that it knows."""
        topic = self._image().topics.with_id(topic_id)
        topology = self.topology
        if topic is None or topology is None or topic.name not in topology.subtopology_of:
            raise _stale("The topology does not read this topic.")
        task = Task(topology.subtopology_of[topic.name], partition)
        given = member.assigned.active.get(task, member.revoking.active.get(task))
        if given is None:
            raise _stale(f"The member epoch {epoch} is old, and the member does not own task {task}.")
        if epoch < given:
            raise _stale(
                f"The member epoch {epoch} is older than {given}, when task {task} was assigned to the member."
            )

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = None if member_id is None else self.members.committed(member_id)
        if member is None:
            raise _unknown(member_id, self.group_id)
        if member_epoch != member.epoch:
            raise _stale(f"The member epoch {member_epoch} is not the current epoch {member.epoch}.")

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def tombstones(self) -> list[CoordinatorRecord]:
        group_id = self.group_id
        return [
            *(writing.place_tombstone(group_id, member_id) for member_id in self.members),
            *(writing.target_tombstone(group_id, member_id) for member_id in self.members),
            writing.target_epoch_tombstone(group_id),
            *(writing.member_tombstone(group_id, member_id) for member_id in self.members),
            writing.epoch_tombstone(group_id),
            writing.topology_tombstone(group_id),
        ]

    def removal_of(self, member_id: str) -> list[CoordinatorRecord]:
        """A member is no more, and that is a new epoch."""
        now = self.epoch
        return [
            *writing.removal(self.group_id, member_id),
            writing.epoch_record(
                self.group_id,
                now.number + 1,
                metadata_hash=now.metadata_hash,
                validated_topology_epoch=now.validated_topology_epoch,
                assignment_settings=now.assignment_settings,
            ),
        ]

    # -- replay

    def set_epoch(self, epoch: GroupEpoch) -> None:
        self._epoch.value = epoch

    def set_target_epoch(self, epoch: TargetEpoch) -> None:
        self._target_epoch.value = epoch

    def set_topology(self, topology: Topology | None) -> None:
        self._topology.value = topology

    def put_member(self, member: StreamsMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None:
            self._release(before)
        self._claim(member)

    def remove_member(self, member_id: str) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self._release(before)
        if not self.members:
            self.shutdown_requested_by = None

    def _claim(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for task in held.active:
                self._processors[task] = (member.member_id, member.process_id)
            for task in held.copies():
                self._keepers.setdefault(task, {})[member.member_id] = member.process_id

    def _release(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for task in held.active:
                if self._processors.get(task, ("", ""))[0] == member.member_id:
                    del self._processors[task]
            for task in held.copies():
                keepers = self._keepers.get(task)
                if keepers is not None:
                    keepers.pop(member.member_id, None)
                    if not keepers:
                        del self._keepers[task]


def _state_of(
    members: Collection[StreamsMember], epoch: GroupEpoch, target_epoch: int, topology: Topology | None
) -> str:
    """As the protocol writes it."""
    if not members:
        return "Empty"
    if topology is None or topology.epoch != epoch.validated_topology_epoch:
        return "NotReady"
    if epoch.number > target_epoch:
        return "Assigning"
    if all(member.is_reconciled_to(target_epoch) for member in members):
        return "Stable"
    return "Reconciling"


def _unknown(member_id: str | None, group_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of streams group {group_id}.")


def _stale(words: str) -> Refused:
    return Refused(ErrorCode.STALE_MEMBER_EPOCH, words)
