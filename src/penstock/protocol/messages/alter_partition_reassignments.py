"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop such moves (KIP-455).

v1 adds allow_replication_factor_change (KIP-860).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class ReassignablePartition:
    partition_index: Int32
    replicas: list[Int32] | None = None  # None cancels a move


@struct
class ReassignableTopic:
    name: str
    partitions: list[ReassignablePartition]


@request(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: bool = field(since=1, default=True)
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class ReassignableTopicResponse:
    name: str
    partitions: list[ReassignablePartitionResponse]


@response(to=AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = field(since=1, default=True, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: list[ReassignableTopicResponse]
