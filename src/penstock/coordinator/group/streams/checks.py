"""Checks of a StreamsGroupHeartbeat that do not depend on the group.

The protocol has static members, task offsets, warm-up tasks and source topics by pattern. Kafka 4.3 does not support
them yet, and neither does Penstock.
"""

from __future__ import annotations

from penstock.coordinator.group.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from penstock.coordinator.group.streams.topology import check_topology
from penstock.metadata.errors import Refused
from penstock.metadata.names import fault_of_topic_name, is_internal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology

NO_TIMEOUT = -1


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """`Refused` with INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY."""
    if request.topology is not None:
        _check_topic_names(request.topology)
    _check_supported(request)
    for name, text in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        _require(text is None or bool(text.strip()), f"{name} must not be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_joining(request)
    else:
        _check_member(request)
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    _require(
        len({each is None for each in tasks}) == 1,
        "Set all of ActiveTasks, StandbyTasks and WarmupTasks, or none.",
    )


def _check_topic_names(topology: Topology) -> None:
    names = sorted(
        {
            name
            for part in topology.subtopologies
            for name in (
                *part.source_topics,
                *part.repartition_sink_topics,
                *(topic.name for topic in part.repartition_source_topics),
                *(topic.name for topic in part.state_changelog_topics),
            )
        }
    )
    internal = [name for name in names if is_internal(name)]
    if internal:
        raise Refused(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"A topology cannot use internal topics of the cluster: {', '.join(internal)}",
        )
    for name in names:
        fault = fault_of_topic_name(name)
        if fault is not None:
            raise Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic name is invalid: {fault}")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    _require(request.instance_id is None, "Static members are not supported in streams groups yet.")
    _require(request.task_offsets is None, "TaskOffsets are not supported yet.")
    _require(request.task_end_offsets is None, "TaskEndOffsets are not supported yet.")
    _require(not request.warmup_tasks, "WarmupTasks are not supported yet.")
    if request.topology is not None:
        _require(
            not any(part.source_topic_regex for part in request.topology.subtopologies),
            "Source topics by regular expression are not supported yet.",
        )


def _check_joining(request: StreamsGroupHeartbeatRequest) -> None:
    _require(request.rebalance_timeout_ms != NO_TIMEOUT, "RebalanceTimeoutMs must be set when joining.")
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        _require(not tasks, "A joining member must not own tasks.")
    if request.topology is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "Topology must be set when joining.")
    check_topology(request.topology)


def _check_member(request: StreamsGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    _require(epoch >= STATIC_LEAVE_EPOCH, f"MemberEpoch {epoch} is invalid.")
    _require(epoch != STATIC_LEAVE_EPOCH, "MemberEpoch -2 needs an InstanceId.")
    _require(request.topology is None, "Topology can only be set when joining.")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(ErrorCode.INVALID_REQUEST, message)
