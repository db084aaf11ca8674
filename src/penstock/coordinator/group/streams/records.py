"""How streams groups are written to the log, and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.coordinator.group.modern.records import GroupMetadata, ModernRecords, read_epochs
from penstock.coordinator.group.records.streams import (
    CurrentTaskIds,
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
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
    TargetTaskIds,
)
from penstock.coordinator.group.streams.member import StreamsMember, UserEndpoint
from penstock.coordinator.group.streams.tasks import (
    NOTHING,
    OwnedTasks,
    Task,
    Tasks,
    in_order,
    read_tasks,
    write_tasks,
)
from penstock.coordinator.group.streams.topology import Topology
from penstock.coordinator.result import CoordinatorRecord


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadata(GroupMetadata):
    validated_topology_epoch: int = -1
    """The epoch of the topology whose topics all exist with the right number of partitions; -1: none."""
    assignment_settings: Mapping[str, str] = field(default_factory=dict)
    """The group settings that the assignment of this epoch depends on."""


def topology_record(group_id: str, topology: Topology | None) -> CoordinatorRecord:
    """None: a tombstone."""
    value = None if topology is None else topology.as_record()
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def _read_group(value: StreamsGroupMetadataValue) -> StreamsGroupMetadata:
    return StreamsGroupMetadata(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        {config.key: config.value for config in value.last_assignment_configs or ()},
    )


def _write_group(metadata: StreamsGroupMetadata) -> StreamsGroupMetadataValue:
    settings = metadata.assignment_settings
    return StreamsGroupMetadataValue(
        epoch=metadata.epoch,
        metadata_hash=metadata.metadata_hash,
        validated_topology_epoch=metadata.validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=settings[key]) for key in sorted(settings)
        ],
    )


def _read_member(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        member,
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


def _write_member(member: StreamsMember) -> StreamsGroupMemberMetadataValue:
    endpoint, tags = member.user_endpoint, member.client_tags
    return StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=tags[key]) for key in sorted(tags)],
    )


def _read_target(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks.read(value.active_tasks, value.standby_tasks, value.warmup_tasks)


def _write_target(target: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=write_tasks(TargetTaskIds, target.active),
        standby_tasks=write_tasks(TargetTaskIds, target.standby),
        warmup_tasks=write_tasks(TargetTaskIds, target.warmup),
    )


def _read_assignments(value: StreamsGroupCurrentMemberAssignmentValue) -> tuple[OwnedTasks, OwnedTasks]:
    assigned = OwnedTasks(
        _read_active(value.active_tasks, value.member_epoch),
        read_tasks(value.standby_tasks),
        read_tasks(value.warmup_tasks),
    )
    revoking = OwnedTasks(
        _read_active(value.active_tasks_pending_revocation, value.member_epoch),
        read_tasks(value.standby_tasks_pending_revocation),
        read_tasks(value.warmup_tasks_pending_revocation),
    )
    return assigned, revoking


def _write_assignments(member: StreamsMember) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for owned, suffix in ((member.assigned, ""), (member.revoking, "_pending_revocation")):
        fields[f"active_tasks{suffix}"] = _write_active(owned.active)
        fields[f"standby_tasks{suffix}"] = write_tasks(CurrentTaskIds, owned.standby)
        fields[f"warmup_tasks{suffix}"] = write_tasks(CurrentTaskIds, owned.warmup)
    return fields


def _read_active(groups: Iterable[CurrentTaskIds], member_epoch: int) -> dict[Task, int]:
    return {
        Task(group.subtopology_id, partition): epoch
        for group in groups
        for partition, epoch in zip(
            group.partitions,
            read_epochs(group.partitions, group.assignment_epochs, member_epoch),
            strict=True,
        )
    }


def _write_active(tasks: Mapping[Task, int]) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[Task(subtopology_id, partition)] for partition in partitions],
        )
        for subtopology_id, partitions in in_order(tasks)
    ]


STREAMS_RECORDS: ModernRecords[StreamsMember, Tasks, StreamsGroupMetadata] = ModernRecords(
    group_key=StreamsGroupMetadataKey,
    member_key=StreamsGroupMemberMetadataKey,
    target_epoch_key=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    target_key=StreamsGroupTargetAssignmentMemberKey,
    current_key=StreamsGroupCurrentMemberAssignmentKey,
    current_value=StreamsGroupCurrentMemberAssignmentValue,
    read_group=_read_group,
    write_group=_write_group,
    read_member=_read_member,
    write_member=_write_member,
    read_target=_read_target,
    write_target=_write_target,
    read_assignments=_read_assignments,
    write_assignments=_write_assignments,
    nothing_assigned=NOTHING,
    first_state=1,
)
