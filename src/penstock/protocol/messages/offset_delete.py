"""OffsetDelete (key 47): delete a group's offsets for some partitions (KIP-496). Its only version is not flexible."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    name: str
    partitions: list[OffsetDeleteRequestPartition]


@request(key=47, versions=(0, 0))
class OffsetDeleteRequest:
    group_id: str
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class OffsetDeleteResponseTopic:
    name: str
    partitions: list[OffsetDeleteResponsePartition]


@response(to=OffsetDeleteRequest)
class OffsetDeleteResponse:
    error_code: ErrorCode = ErrorCode.NONE
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
