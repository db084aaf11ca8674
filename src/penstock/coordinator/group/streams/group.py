"""A streams group: its topology, its members, their target and current tasks.

In addition to the state of every modern group, the timeline holds the topology. Three things are not replicated: the
configured topology, the member that requested a shutdown, and the epoch of the endpoints.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.modern.group import ModernGroup
from penstock.coordinator.group.streams.configuring import ConfiguredTopology
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.records import STREAMS_RECORDS, StreamsGroupMetadata, topology_record
from penstock.coordinator.group.streams.tasks import Task, Tasks
from penstock.coordinator.group.streams.topology import Topology
from penstock.coordinator.result import CoordinatorRecord
from penstock.coordinator.timeline import Timeline, TimelineValue
from penstock.metadata.image import MetadataImage
from penstock.protocol.types import Uuid


class StreamsGroup(ModernGroup[StreamsMember, Tasks, StreamsGroupMetadata]):
    type = GroupType.STREAMS
    records = STREAMS_RECORDS

    def __init__(self, group_id: str, timeline: Timeline, image: Callable[[], MetadataImage]) -> None:
        super().__init__(group_id, timeline, StreamsGroupMetadata())
        self._image = image
        self._topology: TimelineValue[Topology | None] = TimelineValue(timeline, None)
        self._active_owners: dict[Task, tuple[str, str]] = {}
        """Member and process that own a task as active, or have not confirmed its revocation."""
        self._copy_owners: dict[Task, dict[str, str]] = {}
        """Processes that own a task as standby or warm-up, by member."""
        self.configured: ConfiguredTopology | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        """Grows whenever the tasks of a member with an endpoint change."""

    @property
    def topology(self) -> Topology | None:
        return self._topology.value

    @property
    def committed_topology(self) -> Topology | None:
        return self._topology.committed

    def state_name(self, *, committed: bool = False) -> str:
        name = super().state_name(committed=committed)
        topology = self.committed_topology if committed else self.topology
        metadata = self._metadata.committed if committed else self.metadata
        if name != "Empty" and (topology is None or topology.epoch != metadata.validated_topology_epoch):
            return "NotReady"
        return name

    def is_active_anywhere(self, task: Task) -> bool:
        return task in self._active_owners

    def is_owned_by_process(self, process_id: str, task: Task) -> bool:
        """As active, standby or warm-up."""
        owner = self._active_owners.get(task)
        if owner is not None and owner[1] == process_id:
            return True
        copies = self._copy_owners.get(task)
        return copies is not None and process_id in copies.values()

    def assignment_epoch_of(self, member: StreamsMember, topic_id: Uuid, partition: int) -> int | None:
        topic, topology = self._image().topics.with_id(topic_id), self.topology
        if topic is None or topology is None or topic.name not in topology.subtopology_of:
            return None
        task = Task(topology.subtopology_of[topic.name], partition)
        return member.assigned.active.get(task, member.revoking.active.get(task))

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def tombstones(self) -> list[CoordinatorRecord]:
        return [*super().tombstones(), topology_record(self.group_id, None)]

    # -- replay

    def set_topology(self, topology: Topology | None) -> None:
        self._topology.value = topology

    def update_indexes(self, before: StreamsMember | None, after: StreamsMember | None) -> None:
        if before is not None:
            self._release(before)
        if after is not None:
            self._claim(after)
        if not self.members:
            self.shutdown_requested_by = None

    def _claim(self, member: StreamsMember) -> None:
        for owned in (member.assigned, member.revoking):
            for task in owned.active:
                self._active_owners[task] = (member.member_id, member.process_id)
            for task in owned.copies():
                self._copy_owners.setdefault(task, {})[member.member_id] = member.process_id

    def _release(self, member: StreamsMember) -> None:
        for owned in (member.assigned, member.revoking):
            for task in owned.active:
                if self._active_owners.get(task, ("", ""))[0] == member.member_id:
                    del self._active_owners[task]
            for task in owned.copies():
                owners = self._copy_owners.get(task)
                if owners is not None:
                    owners.pop(member.member_id, None)
                    if not owners:
                        del self._copy_owners[task]
