"""ListPartitionReassignments (key 46): the ongoing reassignments of partitions (KIP-455)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: list[Int32]


@request(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None = None  # None: all topics


@struct
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@struct
class OngoingTopicReassignment:
    name: str
    partitions: list[OngoingPartitionReassignment]


@response(to=ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: list[OngoingTopicReassignment]
