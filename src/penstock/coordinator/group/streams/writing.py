"""The lines of the log that a streams group consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import Task, Tasks, in_order
from penstock.coordinator.group.streams.topology import Topology
from penstock.coordinator.outcome import CoordinatorRecord


def epoch_record(
    group_id: str,
    epoch: int,
    *,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_settings: Mapping[str, str],
) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                LastAssignmentConfig(key=key, value=assignment_settings[key])
                for key in sorted(assignment_settings)
            ],
        ),
    )


def epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id), None)


def topology_record(group_id: str, topology: Topology) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), topology.as_record())


def topology_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), None)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.user_endpoint
    return CoordinatorRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[
                KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)
            ],
        ),
    )


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target_epoch_record(group_id: str, epoch: int, *, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Tasks) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_write_target(target.active),
            standby_tasks=_write_target(target.standby),
            warmup_tasks=_write_target(target.warmup),
        ),
    )


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    )


def place_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """What the member has now, and in which epoch."""
    assigned, revoking = member.assigned, member.revoking
    return CoordinatorRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=int(member.state),
            active_tasks=_write_active(assigned.active),
            standby_tasks=_write_copies(assigned.standby),
            warmup_tasks=_write_copies(assigned.warmup),
            active_tasks_pending_revocation=_write_active(revoking.active),
            standby_tasks_pending_revocation=_write_copies(revoking.standby),
            warmup_tasks_pending_revocation=_write_copies(revoking.warmup),
        ),
    )


def place_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    )


def removal(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """All that a member leaves behind, in the order that Kafka insists on when it reads them."""
    return [
        place_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def _write_target(tasks: Iterable[Task]) -> list[TargetTaskIds]:
    return [
        TargetTaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]


def _write_copies(tasks: Iterable[Task]) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]


def _write_active(tasks: Mapping[Task, int]) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[Task(subtopology_id, partition)] for partition in partitions],
        )
        for subtopology_id, partitions in in_order(tasks)
    ]
