"""DeleteShareGroupOffsets (key 92): delete the start offsets of an empty share group for some topics (KIP-932)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str


@request(key=92, versions=(0, 0), flexible=0)
class DeleteShareGroupOffsetsRequest:
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: Uuid
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=DeleteShareGroupOffsetsRequest)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
