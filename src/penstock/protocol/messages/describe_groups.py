"""DescribeGroups (key 15): the state and the members of classic groups.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 can return authorized_operations (KIP-430).
v4 returns group_instance_id (KIP-345).
v5 is flexible.
v6 returns error_message, and GROUP_ID_NOT_FOUND where older versions return a dead group (KIP-1043).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@request(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    groups: list[str]
    include_authorized_operations: bool = field(since=3, default=False)


@struct
class DescribedGroupMember:
    member_id: str
    group_instance_id: str | None = field(since=4, default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@struct
class DescribedGroup:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = field(since=6, default=None)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember]
    # A bit for each operation; the default: not requested.
    authorized_operations: Int32 = field(since=3, default=-(2**31))


@response(to=DescribeGroupsRequest)
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    groups: list[DescribedGroup]
