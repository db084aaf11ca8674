"""Responses to StreamsGroupHeartbeat."""

from __future__ import annotations

from typing import NamedTuple

from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import write_tasks
from penstock.coordinator.group.streams.topology import InternalTopic
from penstock.metadata.errors import Refused
from penstock.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

NOT_USED = 0
"""Recovery lag and the interval of task offsets are only used with warm-up tasks."""


class StreamsHeartbeat(NamedTuple):
    """The response, and the internal topics that must be created before tasks can be assigned."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


def status(code: StatusCode, detail: str) -> Status:
    return Status(status_code=int(code), status_detail=detail)


def heartbeat_response(
    member: StreamsMember,
    *,
    heartbeat_interval_ms: int,
    statuses: list[Status],
    endpoint_epoch: int,
    endpoints: list[EndpointToPartitions] | None,
    with_tasks: bool,
) -> StreamsGroupHeartbeatResponse:
    """`with_tasks` if the member does not know its tasks yet."""
    response = bare_response(member.member_id, member.epoch)
    response.heartbeat_interval_ms = heartbeat_interval_ms
    response.status = statuses
    response.endpoint_information_epoch = endpoint_epoch
    response.partitions_by_user_endpoint = endpoints
    if with_tasks:
        response.active_tasks = write_tasks(TaskIds, member.assigned.active)
        response.standby_tasks = write_tasks(TaskIds, member.assigned.standby)
        response.warmup_tasks = write_tasks(TaskIds, member.assigned.warmup)
    return response


def error_response(refused: Refused) -> StreamsGroupHeartbeatResponse:
    response = bare_response("", 0)
    response.error_code, response.error_message = refused.error, refused.message
    return response


def bare_response(member_id: str, epoch: int) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=NOT_USED,
        task_offset_interval_ms=NOT_USED,
        status=[],
        endpoint_information_epoch=0,
    )
