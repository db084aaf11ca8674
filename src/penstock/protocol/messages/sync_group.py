"""SyncGroup (key 14): the leader of a classic group sends the assignments, and each member gets its own.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 adds group_instance_id (KIP-345).
v4 is flexible.
v5 adds protocol_type and protocol_name, both ways, so that a mismatch is detected (KIP-559).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes  # for consumers, a ConsumerProtocolAssignment after its version


@request(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = field(since=3, default=None)
    protocol_type: str | None = field(since=5, default=None, ignorable=True)
    protocol_name: str | None = field(since=5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]  # from the leader only


@response(to=SyncGroupRequest)
class SyncGroupResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = field(since=5, default=None, ignorable=True)
    protocol_name: str | None = field(since=5, default=None, ignorable=True)
    assignment: bytes
