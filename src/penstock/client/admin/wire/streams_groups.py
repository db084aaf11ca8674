"""StreamsGroupDescribe, whose members have tasks instead of partitions."""

from __future__ import annotations

from penstock.client.admin.groups import (
    GroupDescription,
    GroupState,
    StreamsGroup,
    StreamsMember,
    StreamsSubtopology,
    TaskAssignment,
    Tasks,
)
from penstock.client.admin.operations import operations_of
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import value_or_error
from penstock.client.cluster import Node, TopicPartition
from penstock.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
)


def read_streams_groups(
    response: StreamsGroupDescribeResponse, coordinator: Node | None
) -> Results[str, GroupDescription]:
    return {
        result.group_id: value_or_error(
            result.error_code, result.error_message, result.group_id, _group(result, coordinator)
        )
        for result in response.groups
    }


def _group(result: DescribedGroup, coordinator: Node | None) -> StreamsGroup:
    topology = result.topology
    subtopologies = [] if topology is None else topology.subtopologies or []
    sources = {each.subtopology_id: _source_topics(each) for each in subtopologies}
    return StreamsGroup(
        group_id=result.group_id,
        state=GroupState(result.group_state),
        coordinator=coordinator,
        members=tuple(_member(each, sources) for each in result.members),
        authorized_operations=operations_of(result.authorized_operations),
        epoch=result.group_epoch,
        assignment_epoch=result.assignment_epoch,
        topology_epoch=None if topology is None else topology.epoch,
        subtopologies=tuple(map(_subtopology, subtopologies)),
    )


def _member(member: Member, sources: dict[str, tuple[str, ...]]) -> StreamsMember:
    tasks = _tasks(member.assignment)
    return StreamsMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.instance_id,
        # An active task reads its partition of every source of its subtopology.
        assignment=frozenset(
            TopicPartition(topic, index)
            for subtopology, index in tasks.active
            for topic in sources.get(subtopology, ())
        ),
        rack=member.rack_id,
        epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if member.user_endpoint is None else (member.user_endpoint.host, member.user_endpoint.port)
        ),
        client_tags=tuple((tag.key, tag.value) for tag in member.client_tags),
        tasks=tasks,
        target=_tasks(member.target_assignment),
        is_classic=member.is_classic,
    )


def _tasks(assignment: Assignment) -> TaskAssignment:
    return TaskAssignment(
        active=_task_set(assignment.active_tasks),
        standby=_task_set(assignment.standby_tasks),
        warmup=_task_set(assignment.warmup_tasks),
    )


def _task_set(tasks: list[TaskIds]) -> Tasks:
    return frozenset((each.subtopology_id, index) for each in tasks for index in each.partitions)


def _source_topics(subtopology: Subtopology) -> tuple[str, ...]:
    return (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics))


def _subtopology(subtopology: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=tuple(subtopology.source_topics),
        repartition_sink_topics=tuple(subtopology.repartition_sink_topics),
        repartition_source_topics=tuple(topic.name for topic in subtopology.repartition_source_topics),
        state_changelog_topics=tuple(topic.name for topic in subtopology.state_changelog_topics),
    )
