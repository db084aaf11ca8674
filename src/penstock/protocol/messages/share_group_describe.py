"""ShareGroupDescribe (key 77): the state, members and assignments of share groups (KIP-932).

v1 is the first stable version; v0 was a preview, removed in Kafka 4.1.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@request(key=77, versions=(1, 1), flexible=1)
class ShareGroupDescribeRequest:
    group_ids: list[str]
    include_authorized_operations: bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Member:
    member_id: str
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: Assignment


@struct
class DescribedGroup:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: str
    members: list[Member]
    authorized_operations: Int32 = -(2**31)  # a bit for each operation; the default: not requested


@response(to=ShareGroupDescribeRequest)
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
