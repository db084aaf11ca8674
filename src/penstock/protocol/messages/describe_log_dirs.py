"""DescribeLogDirs (key 35): the log directories of one broker, and the size of each replica in them.

v1 responds before throttling (KIP-219).
v2 is flexible.
v3 returns an error_code for the whole response (KIP-784).
v4 returns total_bytes and usable_bytes of the volume (KIP-827).
v5 returns is_cordoned: the directory takes no new replicas (KIP-1066).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class DescribableLogDirTopic:
    topic: str
    partitions: list[Int32]


@request(key=35, versions=(0, 5), flexible=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None  # None: all topics


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: bool  # a copy that is moving to this directory


@struct
class DescribeLogDirsTopic:
    name: str
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: ErrorCode = ErrorCode.NONE
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = field(since=4, default=-1, ignorable=True)
    usable_bytes: Int64 = field(since=4, default=-1, ignorable=True)
    is_cordoned: bool = field(since=5, default=False, ignorable=True)


@response(to=DescribeLogDirsRequest)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = field(since=3, default=ErrorCode.NONE, ignorable=True)
    results: list[DescribeLogDirsResult]
