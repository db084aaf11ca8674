"""DescribeShareGroupOffsets (key 90): where share groups start in their partitions (KIP-932).

v1 returns lag (KIP-1226).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64, Uuid


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: list[Int32]


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None  # None: all topics


@request(key=90, versions=(0, 1), flexible=0)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup]


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = field(since=1, default=-1, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=DescribeShareGroupOffsetsRequest)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
