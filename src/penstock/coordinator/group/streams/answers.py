"""Answers to StreamsGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import Task, in_order
from penstock.coordinator.group.streams.topology import InternalTopic
from penstock.metadata.errors import Refused
from penstock.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

NOT_GIVEN = 0
"""Recovery lag and the interval of task offsets are not in use before warm-up tasks are."""


class StreamsHeartbeat(NamedTuple):
    """The answer, and the internal topics that somebody has to create before there can be tasks."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


def status(code: StatusCode, detail: str) -> Status:
    return Status(status_code=int(code), status_detail=detail)


def answer(
    member: StreamsMember,
    *,
    heartbeat_interval_ms: int,
    statuses: list[Status],
    endpoint_epoch: int,
    endpoints: list[EndpointToPartitions] | None,
    with_tasks: bool,
) -> StreamsGroupHeartbeatResponse:
    """`with_tasks` where the member does not know yet what it has."""
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        acceptable_recovery_lag=NOT_GIVEN,
        task_offset_interval_ms=NOT_GIVEN,
        status=statuses,
        endpoint_information_epoch=endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )
    if with_tasks:
        response.active_tasks = _task_ids(member.assigned.active)
        response.standby_tasks = _task_ids(member.assigned.standby)
        response.warmup_tasks = _task_ids(member.assigned.warmup)
    return response


def farewell(member_id: str, *, epoch: int) -> StreamsGroupHeartbeatResponse:
    return _bare(member_id, epoch)


def refusal(refused: Refused) -> StreamsGroupHeartbeatResponse:
    response = _bare("", 0)
    response.error_code, response.error_message = refused.error, refused.message
    return response


def _bare(member_id: str, epoch: int) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=NOT_GIVEN,
        acceptable_recovery_lag=NOT_GIVEN,
        task_offset_interval_ms=NOT_GIVEN,
        status=[],
        endpoint_information_epoch=NOT_GIVEN,
    )


def _task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]
