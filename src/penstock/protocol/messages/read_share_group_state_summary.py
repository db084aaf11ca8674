"""ReadShareGroupStateSummary (key 87): where share partitions start, without the state of single records (KIP-932).

v1 returns delivery_complete_count, from which lag is computed (KIP-1226).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64, Uuid


@struct
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateSummaryData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=87, versions=(0, 1), flexible=0)
class ReadShareGroupStateSummaryRequest:
    group_id: str
    topics: list[ReadStateSummaryData]


@struct
class PartitionResult:
    partition: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(since=1, default=-1, ignorable=True)


@struct
class ReadStateSummaryResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(to=ReadShareGroupStateSummaryRequest)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult]
