"""JoinGroup (key 11): a member joins a classic group, or triggers a rebalance.

The member that is `leader` in the response gets the metadata of all members, and assigns the partitions.

v1 adds rebalance_timeout_ms; before, the session timeout serves as both.
v2 returns throttle_time_ms.
v3 responds before throttling (KIP-219).
v4 makes a new member join twice: the first response, MEMBER_ID_REQUIRED, gives it an id (KIP-394).
v5 adds group_instance_id, static membership (KIP-345).
v6 is flexible.
v7 returns protocol_type (KIP-559).
v8 adds reason (KIP-800).
v9 returns skip_assignment (KIP-814).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes  # for consumers, a ConsumerProtocolSubscription after its version


@request(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(since=1, default=-1, ignorable=True)  # -1: as session_timeout_ms
    member_id: str
    group_instance_id: str | None = field(since=5, default=None)
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]  # in the member's order of preference
    reason: str | None = field(since=8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str
    group_instance_id: str | None = field(since=5, default=None, ignorable=True)
    metadata: bytes


@response(to=JoinGroupRequest)
class JoinGroupResponse:
    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    generation_id: Int32 = -1
    protocol_type: str | None = field(since=7, default=None, ignorable=True)
    protocol_name: str | None = field(nullable_since=7)
    leader: str
    skip_assignment: bool = field(since=9, default=False)
    member_id: str
    members: list[JoinGroupResponseMember]  # for the leader alone
