"""CreatePartitions (key 37): give topics more partitions.

v1 responds before throttling (KIP-219).
v2 is flexible.
v3 may return THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    name: str
    count: Int32  # all partitions, old and new
    assignments: list[CreatePartitionsAssignment] | None  # of the new ones; None: the controller places them


@request(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: bool


@struct
class CreatePartitionsTopicResult:
    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=CreatePartitionsRequest)
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
