"""Heartbeat (key 12): a member of a classic group shows that it is alive.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 adds group_instance_id (KIP-345).
v4 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@request(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest:
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = field(since=3, default=None)


@response(to=HeartbeatRequest)
class HeartbeatResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
