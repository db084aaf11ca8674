"""ShareGroupHeartbeat (key 76): a member of a share group joins, stays alive, and leaves (KIP-932).

v1 is the first stable version; v0 was a preview, removed in Kafka 4.1.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@request(key=76, versions=(1, 1), flexible=1)
class ShareGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@response(to=ShareGroupHeartbeatRequest)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
