"""LeaveGroup (key 13): members leave a classic group, or are removed from it.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 removes several members at once, static ones by group_instance_id (KIP-345).
v4 is flexible.
v5 adds reason (KIP-800).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class MemberIdentity:
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = field(since=5, default=None, ignorable=True)


@request(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    group_id: str
    member_id: str = field(until=2, default="")
    members: list[MemberIdentity] = field(since=3, default=[])


@struct
class MemberResponse:
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode = ErrorCode.NONE


@response(to=LeaveGroupRequest)
class LeaveGroupResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    members: list[MemberResponse] = field(since=3, default=[])
