"""InitializeShareGroupState (key 83): the group coordinator initializes the state of share partitions (KIP-932).

The share coordinator, to which this goes, keeps that state.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64, Uuid


@struct
class PartitionData:
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@struct
class InitializeStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=83, versions=(0, 0), flexible=0)
class InitializeShareGroupStateRequest:
    group_id: str
    topics: list[InitializeStateData]


@struct
class PartitionResult:
    partition: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class InitializeStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(to=InitializeShareGroupStateRequest)
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult]
