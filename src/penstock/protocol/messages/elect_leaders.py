"""ElectLeaders (key 43): elect partition leaders now: the preferred ones, or unclean ones where no other is left.

v1 adds election_type (v0 elects preferred leaders only); returns an error_code for the whole response (KIP-460).
v2 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class TopicPartitions:
    topic: str
    partitions: list[Int32]


@request(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    election_type: Int8 = field(since=1, default=0)  # 0 preferred, 1 unclean
    topic_partitions: list[TopicPartitions] | None  # None: all partitions
    timeout_ms: Int32 = 60_000


@struct
class PartitionResult:
    partition_id: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class ReplicaElectionResult:
    topic: str
    partition_result: list[PartitionResult]


@response(to=ElectLeadersRequest)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = field(since=1, default=ErrorCode.NONE)
    replica_election_results: list[ReplicaElectionResult]
