"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays alive, and leaves (KIP-848).

One request does the work of JoinGroup, SyncGroup, Heartbeat and LeaveGroup: `member_epoch` 0 joins, -1 leaves, -2
leaves temporarily (static members). Between full heartbeats, None means that nothing changed.

v1 adds subscribed_topic_regex, and makes clients choose their own member_id (KIP-1082).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@request(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1  # -1: no change
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = field(since=1, default=None)
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None  # what the member owns now


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@response(to=ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
