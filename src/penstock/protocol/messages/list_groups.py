"""ListGroups (key 16): the groups that a broker coordinates.

v1 returns throttle_time_ms.
v2 responds before throttling (KIP-219).
v3 is flexible.
v4 filters by state and returns it (KIP-518).
v5 filters by type and returns it (KIP-848).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@request(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    states_filter: list[str] = field(since=4, default=[])
    types_filter: list[str] = field(since=5, default=[])


@struct
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str = field(since=4, default="", ignorable=True)
    group_type: str = field(since=5, default="", ignorable=True)


@response(to=ListGroupsRequest)
class ListGroupsResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    groups: list[ListedGroup]
