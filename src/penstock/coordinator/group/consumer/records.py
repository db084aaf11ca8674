"""How consumer groups are written to the log, and read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.coordinator.group.consumer.assignment import (
    NOTHING,
    Assignment,
    Owned,
    in_order,
    read_assignment,
    write_assignment,
)
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.modern.records import GroupMetadata, ModernRecords, read_epochs
from penstock.coordinator.group.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopicPartitions,
    TargetTopicPartitions,
)
from penstock.coordinator.result import CoordinatorRecord


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def _read_member(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def _write_member(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )


def _read_assignments(value: ConsumerGroupCurrentMemberAssignmentValue) -> tuple[Owned, Owned]:
    epoch = value.member_epoch
    return (
        _read_owned(value.assigned_partitions, epoch),
        _read_owned(value.partitions_pending_revocation, epoch),
    )


def _write_assignments(member: ConsumerMember) -> dict[str, Any]:
    return {
        "assigned_partitions": _write_owned(member.assigned),
        "partitions_pending_revocation": _write_owned(member.revoking),
    }


def _read_owned(topics: list[OwnedTopicPartitions], member_epoch: int) -> Owned:
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                read_epochs(topic.partitions, topic.assignment_epochs, member_epoch),
                strict=True,
            )
        )
        for topic in topics
    }


def _write_owned(owned: Owned) -> list[OwnedTopicPartitions]:
    return [
        OwnedTopicPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[owned[topic_id][partition] for partition in partitions],
        )
        for topic_id, partitions in in_order(owned)
    ]


CONSUMER_RECORDS: ModernRecords[ConsumerMember, Assignment, GroupMetadata] = ModernRecords(
    group_key=ConsumerGroupMetadataKey,
    member_key=ConsumerGroupMemberMetadataKey,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
    current_value=ConsumerGroupCurrentMemberAssignmentValue,
    read_group=lambda value: GroupMetadata(value.epoch, value.metadata_hash),
    write_group=lambda metadata: ConsumerGroupMetadataValue(
        epoch=metadata.epoch, metadata_hash=metadata.metadata_hash
    ),
    read_member=_read_member,
    write_member=_write_member,
    read_target=lambda value: read_assignment(value.topic_partitions),
    write_target=lambda target: ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=write_assignment(TargetTopicPartitions, target)
    ),
    read_assignments=_read_assignments,
    write_assignments=_write_assignments,
    nothing_assigned=NOTHING,
)
