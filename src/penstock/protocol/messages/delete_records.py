"""DeleteRecords (key 21): move the log start offset of partitions forward; records before it are deleted.

v1 responds before throttling (KIP-219).
v2 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64  # the new start; -1 is the high watermark


@struct
class DeleteRecordsTopic:
    name: str
    partitions: list[DeleteRecordsPartition]


@request(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64  # the lowest start among live replicas; -1 on error
    error_code: ErrorCode = ErrorCode.NONE


@struct
class DeleteRecordsTopicResult:
    name: str
    partitions: list[DeleteRecordsPartitionResult]


@response(to=DeleteRecordsRequest)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
