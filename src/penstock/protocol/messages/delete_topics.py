"""DeleteTopics (key 20): delete topics with all their records.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 may return TOPIC_DELETION_DISABLED.
v4 is flexible.
v5 returns error_message; may return THROTTLING_QUOTA_EXCEEDED (KIP-599).
v6 takes names or ids: topics in place of topic_names (KIP-516).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Uuid


@struct
class DeleteTopicState:
    name: str | None = None
    topic_id: Uuid


@request(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(since=6, default=[])
    topic_names: list[str] = field(until=5, default=[], ignorable=True)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: str | None = field(nullable_since=6)
    topic_id: Uuid = field(since=6, default=ZERO_UUID, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = field(since=5, default=None, ignorable=True)


@response(to=DeleteTopicsRequest)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    responses: list[DeletableTopicResult]
