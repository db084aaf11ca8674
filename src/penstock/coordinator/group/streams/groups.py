"""Streams groups (KIP-1071): what a heartbeat does to its group, and what happens when one does not come.

A heartbeat takes five steps: the member is made or changed; the topology is set by the first member; topics are looked
at, which may show that some are missing; where any of this began a new epoch, tasks are assigned anew; and the member
is brought one step nearer to what it shall have. See `reconciliation` for what must never happen.

Decisions read the newest state and return records; `replaying` alone changes what is replicated. What a decision
changes itself is not: timers, the configured topology, who asked for a shutdown, the epoch of the endpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.config.group import GroupSettings
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.member_epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from penstock.coordinator.group.streams import writing
from penstock.coordinator.group.streams.answers import StreamsHeartbeat, answer, farewell, status
from penstock.coordinator.group.streams.configuring import ConfiguredTopology, StatusCode, configure
from penstock.coordinator.group.streams.deadlines import Deadlines
from penstock.coordinator.group.streams.describe import describe_group
from penstock.coordinator.group.streams.endpoints import partitions_by_endpoint
from penstock.coordinator.group.streams.group import STALE, StreamsGroup
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.reconciliation import reconcile
from penstock.coordinator.group.streams.replaying import StreamsReplay, Timer
from penstock.coordinator.group.streams.target import assign_tasks, assignment_settings, target_records
from penstock.coordinator.group.streams.tasks import NO_TARGET, Tasks
from penstock.coordinator.group.streams.topology import Topology
from penstock.coordinator.group.topic_hash import hash_topics
from penstock.coordinator.outcome import DONE, CoordinatorRecord, Outcome
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_describe import DescribedGroup
from penstock.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)

NO_VALID_TOPOLOGY = -1


@dataclass(slots=True)
class _Draft:
    """What a heartbeat has come to so far, under the settings that hold for the group."""

    settings: GroupSettings
    records: list[CoordinatorRecord] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)

    @property
    def assignment_settings(self) -> dict[str, str]:
        return assignment_settings(self.settings.get("streams.num.standby.replicas"))

    def tell(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(status(code, detail))


class StreamsGroups:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._replay = StreamsReplay(context)
        self._deadlines = Deadlines(context, self._replay.find)

    # -- for the shard

    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        return self._replay.replays

    def loaded(self) -> None:
        for group in self._groups():
            settings = self._context.around.group_settings(group.group_id)
            for member in group.members.values():
                self._deadlines.expect_heartbeat(group.group_id, member.member_id, settings)
                self._deadlines.watch_revocation(group.group_id, member)

    def unloaded(self) -> None:
        """Nobody waits here: a heartbeat is answered as soon as its records are committed."""

    def metadata_changed(self, delta: MetadataDelta) -> list[CoordinatorRecord]:
        """Groups whose topics changed look at them with their next heartbeat; nothing is written until then."""
        changed = {
            topic.name
            for each in delta.topics.values()
            for topic in (each.before, each.after)
            if topic is not None
        }
        for group in self._groups() if changed else ():
            topology = group.topology
            if topology is not None and not changed.isdisjoint(topology.required_topics):
                group.refreshed_epoch = STALE
        return []

    def describe(self, group_id: str) -> DescribedGroup:
        """Committed state. `Refused` with GROUP_ID_NOT_FOUND where it is not a streams group."""
        group = self._context.groups.committed(group_id)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} does not exist.")
        if not isinstance(group, StreamsGroup):
            raise _not_streams(group_id)
        return describe_group(group)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, *, client: Client, version: int
    ) -> Outcome[StreamsHeartbeat]:
        """`request` has passed `checks.check_heartbeat`. There is one version of it so far."""
        if request.member_epoch in (LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH):
            return self._leave(request)
        draft = _Draft(self._context.around.group_settings(request.group_id))
        owned = _owned(request)
        if request.member_epoch == JOINING_EPOCH:
            group = self._find_or_make(request.group_id, draft)
            self._check_size(group)
            before = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            group = self._find(request.group_id)
            before = group.member(request.member_id)
            _check_epoch(before, request.member_epoch, owned)

        member = before.described_as(request, client)
        if member is not before:
            draft.records.append(writing.member_record(group.group_id, member))
        topology = _topology(group, member, request, draft)
        configured, metadata_hash = self._configured(group, topology)
        if configured.is_ready and owned is not None:
            _check_tasks(owned, configured)
        epoch = self._epoch(group, configured, metadata_hash, draft, is_member_changed=member is not before)
        self._delay_first_assignment(group, draft.settings)
        target_epoch, target = self._target(group, epoch, member, configured, draft)
        reconciled = reconcile(member, target, target_epoch=target_epoch, owned=owned, holders=group)
        if reconciled != member:
            draft.records.append(writing.place_record(group.group_id, reconciled))
            self._deadlines.watch_revocation(group.group_id, reconciled)
        self._deadlines.expect_heartbeat(group.group_id, member.member_id, draft.settings)
        if request.shutdown_application and group.shutdown_requested_by is None:
            group.shutdown_requested_by = member.member_id
        # A member that has other tasks than it should know of has missed an answer. Kafka does not tell it again, and
        # puts it out in the end, or leaves it without its tasks.
        is_news = (
            request.member_epoch == JOINING_EPOCH
            or reconciled.assigned != before.assigned
            or (owned is not None and not reconciled.assigned.holds_just(owned))
        )
        response = self._answer(group, reconciled, configured, request, draft, with_tasks=is_news)
        outcome = Outcome(StreamsHeartbeat(response, configured.missing), draft.records)
        if self._context.groups.get(request.group_id) is not group:
            line = f"created streams group {request.group_id}, requested by {client}"
            outcome = outcome.and_log(logger, line)
        return outcome

    # -- the steps of a heartbeat

    def _find_or_make(self, group_id: str, draft: _Draft) -> StreamsGroup:
        """One that is made here lives no longer than the decision; replaying its records makes the real one."""
        group = self._context.groups.get(group_id)
        if group is not None and group.type is GroupType.CLASSIC and group.is_empty:
            draft.records += group.tombstones()
            group = None
        if group is None:
            return StreamsGroup(group_id, self._context)
        if not isinstance(group, StreamsGroup):
            raise _not_streams(group_id)
        return group

    def _find(self, group_id: str) -> StreamsGroup:
        group = self._context.groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} does not exist.")
        if not isinstance(group, StreamsGroup):
            raise _not_streams(group_id)
        return group

    def _check_size(self, group: StreamsGroup) -> None:
        """As in Kafka, also for a member that joins once more."""
        size_max = self._context.around.settings().get("group.streams.max.size")
        if len(group.members) >= size_max:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The group is full: it has the maximum of {size_max} members.",
            )

    def _configured(self, group: StreamsGroup, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology as the topics let it be, and the number that stands for these topics."""
        if group.configured is not None and not group.is_stale:
            return group.configured, group.epoch.metadata_hash
        image = self._context.around.image()
        group.configured = configure(topology, image.topics)
        group.refreshed_epoch = group.epoch.number
        return group.configured, hash_topics(topology.required_topics, image)

    def _epoch(
        self,
        group: StreamsGroup,
        configured: ConfiguredTopology,
        metadata_hash: int,
        draft: _Draft,
        *,
        is_member_changed: bool,
    ) -> int:
        """The group's epoch: a new one where the member or anything else that assignments depend on has changed."""
        now = group.epoch
        settings = draft.assignment_settings
        validated = configured.epoch if configured.is_ready else NO_VALID_TOPOLOGY
        if (
            not is_member_changed
            and metadata_hash == now.metadata_hash
            and validated == now.validated_topology_epoch
            and settings == now.assignment_settings
        ):
            return now.number
        epoch = group.refreshed_epoch = now.number + 1
        draft.records.append(
            writing.epoch_record(
                group.group_id,
                epoch,
                metadata_hash=metadata_hash,
                validated_topology_epoch=validated,
                assignment_settings=settings,
            )
        )
        return epoch

    def _target(
        self,
        group: StreamsGroup,
        epoch: int,
        member: StreamsMember,
        configured: ConfiguredTopology,
        draft: _Draft,
    ) -> tuple[int, Tasks]:
        """What the member shall have, and in which epoch: computed anew where the group's epoch is newer."""
        if Timer.first_assignment(group.group_id) in self._context.timers:
            draft.tell(
                StatusCode.ASSIGNMENT_DELAYED, "More members may come before the first assignment is made."
            )
            return group.target_epoch.number, NO_TARGET
        target = group.targets.get(member.member_id, NO_TARGET)
        if group.target_epoch.number >= epoch:
            return group.target_epoch.number, target
        now_ms = self._context.wall_ms()
        if now_ms < _next_assignment_ms(group, draft.settings):
            draft.tell(StatusCode.ASSIGNMENT_DELAYED, "The last assignment was made a short while ago.")
            return group.target_epoch.number, target
        members = {**group.members, member.member_id: member}
        targets = assign_tasks(group, members, configured, draft.assignment_settings)
        draft.records += target_records(group, targets, epoch=epoch, timestamp_ms=now_ms)
        return epoch, targets[member.member_id]

    def _answer(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        configured: ConfiguredTopology,
        request: StreamsGroupHeartbeatRequest,
        draft: _Draft,
        *,
        with_tasks: bool,
    ) -> StreamsGroupHeartbeatResponse:
        if with_tasks and member.user_endpoint is not None:
            group.endpoint_epoch += 1
        endpoints = None
        if group.endpoint_epoch != request.endpoint_information_epoch:
            others = [each for each in group.members.values() if each.member_id != member.member_id]
            endpoints = partitions_by_endpoint(
                [*others, member], configured, self._context.around.image().topics
            )
        if configured.fault is not None:
            draft.tell(configured.fault.code, configured.fault.detail)
        if group.shutdown_requested_by is not None:
            draft.tell(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Member {group.shutdown_requested_by} asked for the whole application to shut down.",
            )
        is_new = group.group_id not in self._context.groups
        return answer(
            member,
            heartbeat_interval_ms=draft.settings.get("streams.heartbeat.interval.ms"),
            statuses=draft.statuses,
            # A group that is being made forgets the epoch that it had meanwhile.
            endpoint_epoch=0 if is_new else group.endpoint_epoch,
            endpoints=endpoints,
            with_tasks=with_tasks,
        )

    # -- leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> Outcome[StreamsHeartbeat]:
        group = self._find(request.group_id)
        member = group.member(request.member_id)
        if request.shutdown_application and group.shutdown_requested_by is None:
            group.shutdown_requested_by = member.member_id
        logger.info("streams group %s: member %s leaves", group.group_id, member.member_id)
        response = farewell(member.member_id, epoch=request.member_epoch)
        return Outcome(StreamsHeartbeat(response), group.removal_of(member.member_id))

    # -- the first assignment

    def _delay_first_assignment(self, group: StreamsGroup, settings: GroupSettings) -> None:
        """Members of an application start together: the first one waits for the others, to save them a rebalance."""
        key = Timer.first_assignment(group.group_id)
        delay_ms: int = settings.get("streams.initial.rebalance.delay.ms")
        if group.is_empty and delay_ms > 0 and key not in self._context.timers:
            self._context.timers.set(key, delay_ms, lambda: self._assign_first(group.group_id))

    def _assign_first(self, group_id: str) -> Outcome[None]:
        """Where topics have to be looked at first, that is left to the next heartbeat."""
        group = self._replay.find(group_id)
        if group is None or group.is_empty or group.is_stale:
            return DONE
        epoch, configured = group.epoch, group.configured
        if configured is None or epoch.number <= group.target_epoch.number:
            return DONE
        targets = assign_tasks(group, group.members, configured, epoch.assignment_settings)
        now_ms = self._context.wall_ms()
        return Outcome(None, target_records(group, targets, epoch=epoch.number, timestamp_ms=now_ms))

    def _groups(self) -> Iterator[StreamsGroup]:
        for group in self._context.groups.values():
            if isinstance(group, StreamsGroup):
                yield group


def _next_assignment_ms(group: StreamsGroup, settings: GroupSettings) -> int:
    """When tasks may be assigned again, wall clock; long ago where they never were."""
    interval_ms: int = settings.get("streams.assignment.interval.ms")
    computed_at_ms = group.target_epoch.computed_at_ms
    return computed_at_ms + interval_ms if computed_at_ms and interval_ms else 0


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """What the member says that it has; None: it says nothing of it."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks.read(request.active_tasks, request.standby_tasks, request.warmup_tasks)


def _check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    if epoch > member.epoch:
        raise _fenced(f"The member epoch {epoch} is newer than the current epoch {member.epoch}.")
    if epoch < member.epoch:
        # The answer that brought the newer epoch may have been lost.
        is_one_behind = (
            epoch == member.previous_epoch and owned is not None and member.assigned.holds_all(owned)
        )
        if not is_one_behind:
            raise _fenced(f"The member epoch {epoch} is older than the current epoch {member.epoch}.")


def _check_tasks(owned: Tasks, topology: ConfiguredTopology) -> None:
    for task in sorted(owned.active | owned.standby | owned.warmup):
        part = topology.subtopologies.get(task.subtopology_id)
        if part is None or not 0 <= task.partition < part.task_count:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The topology has no task {task}.")


def _topology(
    group: StreamsGroup, member: StreamsMember, request: StreamsGroupHeartbeatRequest, draft: _Draft
) -> Topology:
    """The group's topology, which its first member brings. Kafka 4.3 can not change it yet."""
    known = group.topology
    brought = None if request.topology is None else Topology.read(request.topology)
    if known is None:
        if brought is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
        draft.records.append(writing.topology_record(group.group_id, brought))
        return brought
    if brought is not None and brought.epoch >= known.epoch and brought != known:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "The topology differs from that of the group; changing it is not supported yet.",
        )
    if member.topology_epoch < known.epoch:
        draft.tell(
            StatusCode.STALE_TOPOLOGY,
            f"The member has epoch {member.topology_epoch} of the topology, the group {known.epoch}.",
        )
    return known


def _fenced(words: str) -> Refused:
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"{words} Give up all tasks and rejoin.")


def _not_streams(group_id: str) -> Refused:
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
