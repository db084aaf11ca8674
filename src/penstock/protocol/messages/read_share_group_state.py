"""ReadShareGroupState (key 84): a share partition's leader reads its state from the share coordinator (KIP-932)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int16, Int32, Int64, Uuid


@struct
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=84, versions=(0, 0), flexible=0)
class ReadShareGroupStateRequest:
    group_id: str
    topics: list[ReadStateData]


@struct
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8  # 0 available, 2 acknowledged, 4 archived
    delivery_count: Int16


@struct
class PartitionResult:
    partition: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_epoch: Int32
    start_offset: Int64
    state_batches: list[StateBatch]


@struct
class ReadStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(to=ReadShareGroupStateRequest)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult]
