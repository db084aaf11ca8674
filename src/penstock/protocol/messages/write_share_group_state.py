"""WriteShareGroupState (key 85): a share partition's leader stores its state with the share coordinator (KIP-932).

v1 adds delivery_complete_count, from which lag is computed (KIP-1226).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int16, Int32, Int64, Uuid


@struct
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8  # 0 available, 2 acknowledged, 4 archived
    delivery_count: Int16


@struct
class PartitionData:
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(since=1, default=-1, ignorable=True)
    state_batches: list[StateBatch]


@struct
class WriteStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=85, versions=(0, 1), flexible=0)
class WriteShareGroupStateRequest:
    group_id: str
    topics: list[WriteStateData]


@struct
class PartitionResult:
    partition: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class WriteStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(to=WriteShareGroupStateRequest)
class WriteShareGroupStateResponse:
    results: list[WriteStateResult]
