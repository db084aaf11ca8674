"""AlterShareGroupOffsets (key 91): set where an empty share group starts in its partitions (KIP-932)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64, Uuid


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@request(key=91, versions=(0, 0), flexible=0)
class AlterShareGroupOffsetsRequest:
    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@response(to=AlterShareGroupOffsetsRequest)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
