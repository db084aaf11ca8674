"""Streams groups for StreamsGroupDescribe: committed state."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.coordinator.group.streams.configuring import ConfiguredSubtopology
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import NO_TARGET, Task, Tasks, write_tasks
from penstock.coordinator.group.streams.topology import InternalTopic, Subtopology
from penstock.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
    TopicInfo,
    Topology,
)
from penstock.protocol.messages.streams_group_describe import Subtopology as DescribedSubtopology


def describe_group(group: StreamsGroup) -> DescribedGroup:
    epoch, target_epoch = group.committed_epochs
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(committed=True),
        group_epoch=epoch,
        assignment_epoch=target_epoch,
        topology=_describe_topology(group),
        members=[
            _describe_member(member, group.targets.committed(member.member_id) or NO_TARGET)
            for member in group.members.committed_items().values()
        ],
    )


def _describe_topology(group: StreamsGroup) -> Topology | None:
    """With the partition counts of internal topics, once the topology is configured and ready."""
    topology, configured = group.committed_topology, group.configured
    if topology is None:
        return None
    parts: Iterable[tuple[str, Subtopology | ConfiguredSubtopology]] = topology.subtopologies.items()
    if configured is not None and configured.is_ready and configured.epoch == topology.epoch:
        parts = configured.subtopologies.items()
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(part.source_topics),
                repartition_sink_topics=sorted(part.repartition_sinks),
                state_changelog_topics=_describe_topics(part.changelogs),
                repartition_source_topics=_describe_topics(part.repartition_sources),
            )
            for subtopology_id, part in parts
        ],
    )


def _describe_topics(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partition_count,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.settings],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _describe_member(member: StreamsMember, target: Tasks) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_describe_tasks(member.assigned.active, member.assigned.standby, member.assigned.warmup),
        target_assignment=_describe_tasks(target.active, target.standby, target.warmup),
        is_classic=False,
    )


def _describe_tasks(active: Iterable[Task], standby: Iterable[Task], warmup: Iterable[Task]) -> Assignment:
    return Assignment(
        active_tasks=write_tasks(TaskIds, active),
        standby_tasks=write_tasks(TaskIds, standby),
        warmup_tasks=write_tasks(TaskIds, warmup),
    )
