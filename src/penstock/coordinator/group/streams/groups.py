"""Streams groups (KIP-1071) in a shard: heartbeats, describe, and replay.

A heartbeat takes five steps. The member is added or updated; the first member sets the topology; the topics are looked
up, and some may be missing; if any of this began a new group epoch, a new target assignment is computed; the member
takes one step closer to its target. `reconciliation` states the invariant.

Decisions read the newest state and return records; only replay changes replicated state. A decision itself changes
timers, the configured topology, the shutdown request and the epoch of the endpoints, which are not replicated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.config.group import GroupSettings
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.modern.groups import ModernGroups
from penstock.coordinator.group.modern.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from penstock.coordinator.group.modern.timeouts import MemberTimeouts
from penstock.coordinator.group.records.streams import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from penstock.coordinator.group.streams.configuring import ConfiguredTopology, StatusCode, configure
from penstock.coordinator.group.streams.describe import describe_group
from penstock.coordinator.group.streams.endpoints import partitions_by_endpoint
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.reconciliation import reconcile
from penstock.coordinator.group.streams.records import StreamsGroupMetadata, topology_record
from penstock.coordinator.group.streams.responses import (
    StreamsHeartbeat,
    bare_response,
    heartbeat_response,
    status,
)
from penstock.coordinator.group.streams.target import assign_tasks, assignment_settings
from penstock.coordinator.group.streams.tasks import NO_TARGET, Tasks
from penstock.coordinator.group.streams.topology import Topology
from penstock.coordinator.group.topic_hash import hash_topics
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult
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
class _Heartbeat:
    """The records and statuses that one heartbeat produces."""

    settings: GroupSettings
    records: list[CoordinatorRecord] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)

    @property
    def assignment_settings(self) -> dict[str, str]:
        return assignment_settings(self.settings.get("streams.num.standby.replicas"))

    def add_status(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(status(code, detail))


class StreamsGroups:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._groups = ModernGroups(context, StreamsGroup, StreamsMember, self._new_group)
        self._timeouts = MemberTimeouts(StreamsGroup.type, context.timers, self._groups.find, self._remove)

    # -- for the shard

    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        return {
            **self._groups.replays,
            StreamsGroupMetadataKey: self._replay_group,
            StreamsGroupTopologyKey: self._replay_topology,
        }

    def _replay_group(self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
        self._groups.replay_group(key, value)
        if value is None:
            self._context.timers.cancel(_first_assignment_key(key.group_id))

    def _replay_topology(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        group = self._groups.replay_into(key.group_id, value)
        if group is not None:
            group.set_topology(None if value is None else Topology.read(value))

    def loaded(self) -> None:
        for group in self._groups:
            settings = self._context.dependencies.group_settings(group.group_id)
            for member in group.members.values():
                self._set_session(group, member, settings)
                self._timeouts.update_rebalance(group.group_id, member)

    def unloaded(self) -> None:
        """No response is pending here: a heartbeat is answered as soon as its records are committed."""

    def metadata_changed(self, delta: MetadataDelta) -> None:
        def uses_any(group: StreamsGroup, topics: set[str]) -> bool:
            return group.topology is not None and not topics.isdisjoint(group.topology.required_topics)

        self._groups.mark_stale(delta, uses_any)

    def describe(self, group_id: str) -> DescribedGroup:
        """Committed state. `Refused` with GROUP_ID_NOT_FOUND."""
        return describe_group(self._groups.require_committed(group_id))

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, *, client: Client, version: int
    ) -> CoordinatorResult[StreamsHeartbeat]:
        """`request` has passed `checks.check_heartbeat`. There is only one version so far."""
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request)
        heartbeat = _Heartbeat(self._context.dependencies.group_settings(request.group_id))
        reported = _reported(request)
        if request.member_epoch == JOIN_EPOCH:
            group = self._open_group(request.group_id, heartbeat)
            # As in Kafka, a member that rejoins is checked too.
            group.check_size(self._context.dependencies.settings().get("group.streams.max.size"))
            before = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            group = self._groups.require(request.group_id)
            before = group.member(request.member_id)
            before.check_epoch(
                request.member_epoch,
                owns_only_assigned=reported is not None and before.assigned.has_all(reported),
            )

        member = before.updated_by(request, client)
        if member is not before:
            heartbeat.records.append(group.records.member(group.group_id, member))
        topology = _topology(group, member, request, heartbeat)
        configured, metadata_hash = self._configured(group, topology)
        if configured.is_ready and reported is not None:
            _check_tasks(reported, configured)
        epoch = self._epoch(group, configured, metadata_hash, heartbeat, is_changed=member is not before)
        self._delay_first_assignment(group, heartbeat.settings)
        target_epoch, target = self._target(group, epoch, member, configured, heartbeat)
        reconciled = reconcile(member, target, target_epoch=target_epoch, reported=reported, owners=group)
        if reconciled != member:
            heartbeat.records.append(group.records.current(group.group_id, reconciled))
            self._timeouts.update_rebalance(group.group_id, reconciled)
        self._set_session(group, member, heartbeat.settings)
        _note_shutdown_request(group, request)
        # A member that reports other tasks than it is assigned has missed a response. Kafka does not send the tasks
        # again: the member is removed in the end, or stays without its tasks.
        is_news = (
            request.member_epoch == JOIN_EPOCH
            or reconciled.assigned != before.assigned
            or (reported is not None and not reconciled.assigned.has_exactly(reported))
        )
        response = self._response(group, reconciled, configured, request, heartbeat, with_tasks=is_news)
        outcome = CoordinatorResult(StreamsHeartbeat(response, configured.missing), heartbeat.records)
        if self._context.groups.get(request.group_id) is not group:
            line = f"created streams group {request.group_id}, requested by {client}"
            outcome = outcome.and_log(logger, line)
        return outcome

    # -- the steps of a heartbeat

    def _new_group(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id, self._context.timeline, self._context.dependencies.image)

    def _open_group(self, group_id: str, heartbeat: _Heartbeat) -> StreamsGroup:
        """A new group only lives as long as the decision; replaying its records creates the real one."""
        group = self._context.groups.get(group_id)
        if group is None:
            return self._new_group(group_id)
        if group.type is GroupType.CLASSIC and group.is_empty:
            heartbeat.records += group.tombstones()
            return self._new_group(group_id)
        return self._groups.check_type(group_id, group)

    def _set_session(self, group: StreamsGroup, member: StreamsMember, settings: GroupSettings) -> None:
        timeout_ms = settings.get("streams.session.timeout.ms")
        self._timeouts.set_session(group.group_id, member.member_id, timeout_ms)

    def _configured(self, group: StreamsGroup, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology with the current topics, and the hash of these topics."""
        if group.configured is not None and not group.is_stale:
            return group.configured, group.metadata.metadata_hash
        image = self._context.dependencies.image()
        group.configured = configure(topology, image.topics)
        group.refreshed_epoch = group.epoch
        return group.configured, hash_topics(topology.required_topics, image)

    def _epoch(
        self,
        group: StreamsGroup,
        configured: ConfiguredTopology,
        metadata_hash: int,
        heartbeat: _Heartbeat,
        *,
        is_changed: bool,
    ) -> int:
        """The group epoch: a new one if the member or anything else that assignments depend on has changed."""
        validated = configured.epoch if configured.is_ready else NO_VALID_TOPOLOGY
        metadata = StreamsGroupMetadata(group.epoch, metadata_hash, validated, heartbeat.assignment_settings)
        if metadata == group.metadata and not is_changed:
            return metadata.epoch
        metadata = replace(metadata, epoch=group.epoch + 1)
        group.refreshed_epoch = metadata.epoch
        heartbeat.records.append(group.records.group(group.group_id, metadata))
        return metadata.epoch

    def _target(
        self,
        group: StreamsGroup,
        epoch: int,
        member: StreamsMember,
        configured: ConfiguredTopology,
        heartbeat: _Heartbeat,
    ) -> tuple[int, Tasks]:
        """The epoch and the tasks of the member's target: computed again if the group epoch is newer."""
        if _first_assignment_key(group.group_id) in self._context.timers:
            heartbeat.add_status(
                StatusCode.ASSIGNMENT_DELAYED,
                "The first assignment is delayed so that more members can join.",
            )
            return group.target_epoch.number, NO_TARGET
        target = group.targets.get(member.member_id, NO_TARGET)
        if group.target_epoch.number >= epoch:
            return group.target_epoch.number, target
        wall_ms = self._context.wall_ms()
        interval_ms: int = heartbeat.settings.get("streams.assignment.interval.ms")
        if not group.is_assignment_due(wall_ms=wall_ms, interval_ms=interval_ms):
            heartbeat.add_status(
                StatusCode.ASSIGNMENT_DELAYED,
                "The assignment is delayed: the last one was computed recently.",
            )
            return group.target_epoch.number, target
        members = {**group.members, member.member_id: member}
        targets = assign_tasks(group, members, configured, heartbeat.assignment_settings)
        heartbeat.records += group.target_records(targets, epoch=epoch, wall_ms=wall_ms)
        return epoch, targets[member.member_id]

    def _response(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        configured: ConfiguredTopology,
        request: StreamsGroupHeartbeatRequest,
        heartbeat: _Heartbeat,
        *,
        with_tasks: bool,
    ) -> StreamsGroupHeartbeatResponse:
        if with_tasks and member.user_endpoint is not None:
            group.endpoint_epoch += 1
        endpoints = None
        if group.endpoint_epoch != request.endpoint_information_epoch:
            others = [each for each in group.members.values() if each.member_id != member.member_id]
            endpoints = partitions_by_endpoint(
                [*others, member], configured, self._context.dependencies.image().topics
            )
        if configured.fault is not None:
            heartbeat.add_status(configured.fault.code, configured.fault.detail)
        if group.shutdown_requested_by is not None:
            heartbeat.add_status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Member {group.shutdown_requested_by} requested the shutdown of the whole application.",
            )
        is_new = group.group_id not in self._context.groups
        return heartbeat_response(
            member,
            heartbeat_interval_ms=heartbeat.settings.get("streams.heartbeat.interval.ms"),
            statuses=heartbeat.statuses,
            # The object of a new group is dropped after this decision, with its endpoint epoch.
            endpoint_epoch=0 if is_new else group.endpoint_epoch,
            endpoints=endpoints,
            with_tasks=with_tasks,
        )

    # -- members that leave or are removed

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> CoordinatorResult[StreamsHeartbeat]:
        group = self._groups.require(request.group_id)
        member = group.member(request.member_id)
        _note_shutdown_request(group, request)
        logger.info("streams group %s: member %s leaves", group.group_id, member.member_id)
        response = bare_response(member.member_id, request.member_epoch)
        return self._remove(group, [member]).with_response(StreamsHeartbeat(response))

    def _remove(self, group: StreamsGroup, members: Iterable[StreamsMember]) -> CoordinatorResult[None]:
        member_ids = [member.member_id for member in members]
        metadata = replace(group.metadata, epoch=group.epoch + 1)
        records = group.removal_of(member_ids, metadata=metadata)
        return self._timeouts.removal(group, member_ids, records)

    # -- the first assignment

    def _delay_first_assignment(self, group: StreamsGroup, settings: GroupSettings) -> None:
        """The members of an application start together: the first one waits for the others, to avoid rebalances."""
        key = _first_assignment_key(group.group_id)
        delay_ms: int = settings.get("streams.initial.rebalance.delay.ms")
        if group.is_empty and delay_ms > 0 and key not in self._context.timers:
            self._context.timers.set(key, delay_ms, lambda: self._assign_first(group.group_id))

    def _assign_first(self, group_id: str) -> CoordinatorResult[None]:
        """If topics have to be looked up first, the next heartbeat assigns."""
        group = self._groups.find(group_id)
        if group is None or group.is_empty or group.is_stale:
            return DONE
        if group.configured is None or group.epoch <= group.target_epoch.number:
            return DONE
        targets = assign_tasks(group, group.members, group.configured, group.metadata.assignment_settings)
        wall_ms = self._context.wall_ms()
        return CoordinatorResult(None, group.target_records(targets, epoch=group.epoch, wall_ms=wall_ms))


def _first_assignment_key(group_id: str) -> tuple[str, str]:
    return ("first assignment", group_id)


def _note_shutdown_request(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
    if request.shutdown_application and group.shutdown_requested_by is None:
        group.shutdown_requested_by = request.member_id


def _reported(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that the member reports to own; None: the request does not have them."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks.read(request.active_tasks, request.standby_tasks, request.warmup_tasks)


def _check_tasks(reported: Tasks, topology: ConfiguredTopology) -> None:
    for task in sorted(reported.active | reported.standby | reported.warmup):
        part = topology.subtopologies.get(task.subtopology_id)
        if part is None or not 0 <= task.partition < part.task_count:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The topology has no task {task}.")


def _topology(
    group: StreamsGroup, member: StreamsMember, request: StreamsGroupHeartbeatRequest, heartbeat: _Heartbeat
) -> Topology:
    """The topology of the group, which its first member sets. Kafka 4.3 cannot change it yet."""
    known = group.topology
    sent = None if request.topology is None else Topology.read(request.topology)
    if known is None:
        if sent is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
        heartbeat.records.append(topology_record(group.group_id, sent))
        return sent
    if sent is not None and sent.epoch >= known.epoch and sent != known:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "The topology differs from that of the group; changing it is not supported yet.",
        )
    if member.topology_epoch < known.epoch:
        heartbeat.add_status(
            StatusCode.STALE_TOPOLOGY,
            f"The member has topology epoch {member.topology_epoch}, the group has {known.epoch}.",
        )
    return known
