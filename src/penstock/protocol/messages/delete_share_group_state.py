"""DeleteShareGroupState (key 86): the group coordinator asks to delete the state of share partitions (KIP-932)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@struct
class PartitionData:
    partition: Int32


@struct
class DeleteStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=86, versions=(0, 0), flexible=0)
class DeleteShareGroupStateRequest:
    group_id: str
    topics: list[DeleteStateData]


@struct
class PartitionResult:
    partition: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@struct
class DeleteStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(to=DeleteShareGroupStateRequest)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult]
