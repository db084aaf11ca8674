"""One member of a streams group: how it describes itself, and how far it has come. A value that never changes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from penstock.coordinator.group.client import Client
from penstock.coordinator.group.member_epochs import LEAVING_EPOCH
from penstock.coordinator.group.records.streams import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)
from penstock.coordinator.group.streams.tasks import NOTHING, HeldTasks, Task, read_tasks
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class MemberState(enum.IntEnum):
    """As records write it."""

    STABLE = 1
    """It has what it shall have in its epoch, and knows."""
    UNREVOKED_TASKS = 2
    """It has been told to give up tasks and has not said yet that it did."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not given up yet."""
    UNKNOWN = 127
    """Written by newer software. Such a member has to begin anew."""

    @classmethod
    def read(cls, value: int) -> MemberState:
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(MemberState)


class UserEndpoint(NamedTuple):
    """Where the application answers queries about its state."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    """An answer may be lost: a member may come with the epoch before, if it has nothing that it should not have."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    """How long it may take to give up tasks."""
    topology_epoch: int = -1
    process_id: str = ""
    """Members of one process share its state directory, so no two of them hold the same task."""
    user_endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: HeldTasks = NOTHING
    revoking: HeldTasks = NOTHING
    """Its own still, but it has been told to give it up."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.epoch == assignment_epoch and self.state is MemberState.STABLE

    def moved_to(
        self, epoch: int, *, state: MemberState, assigned: HeldTasks, revoking: HeldTasks = NOTHING
    ) -> StreamsMember:
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )

    def described_as(self, request: StreamsGroupHeartbeatRequest, client: Client) -> StreamsMember:
        """With what a heartbeat says anew; itself where nothing is new, as with most heartbeats."""
        said: dict[str, Any] = {"client_id": client.client_id, "client_host": client.host}
        if request.rack_id is not None:
            said["rack_id"] = request.rack_id
        if request.rebalance_timeout_ms != -1:
            said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.topology is not None:
            said["topology_epoch"] = request.topology.epoch
        if request.process_id is not None:
            said["process_id"] = request.process_id
        if request.user_endpoint is not None:
            said["user_endpoint"] = UserEndpoint(request.user_endpoint.host, request.user_endpoint.port)
        if request.client_tags is not None:
            said["client_tags"] = {tag.key: tag.value for tag in request.client_tags}
        if all(getattr(self, name) == value for name, value in said.items()):
            return self
        return replace(self, **said)

    # -- as records

    def described_by(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def placed_by(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.read(value.state),
            assigned=HeldTasks(
                _read_active(value.active_tasks, value.member_epoch),
                read_tasks(value.standby_tasks),
                read_tasks(value.warmup_tasks),
            ),
            revoking=HeldTasks(
                _read_active(value.active_tasks_pending_revocation, value.member_epoch),
                read_tasks(value.standby_tasks_pending_revocation),
                read_tasks(value.warmup_tasks_pending_revocation),
            ),
        )

    def displaced(self) -> StreamsMember:
        """Without a place in the group, as between the records that remove it."""
        return replace(
            self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NOTHING, revoking=NOTHING
        )


def _read_active(groups: Iterable[CurrentTaskIds], member_epoch: int) -> dict[Task, int]:
    """Software before 4.3 did not write the epochs: then they are taken to be the member's own."""
    held: dict[Task, int] = {}
    for group in groups:
        epochs = group.assignment_epochs
        if epochs is None or len(epochs) != len(group.partitions):
            epochs = [member_epoch] * len(group.partitions)
        for partition, epoch in zip(group.partitions, epochs, strict=True):
            held[Task(group.subtopology_id, partition)] = epoch
    return held
