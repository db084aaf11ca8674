"""ConsumerGroupDescribe (key 69): the state, members and assignments of consumer groups (KIP-848).

v1 returns member_type (KIP-1099).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32, Uuid


@request(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest:
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
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = field(since=1, default=-1, ignorable=True)  # -1 unknown, 0 classic, 1 consumer


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


@response(to=ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
