"""DeleteGroups (key 42): delete empty groups and their offsets.

v1 responds before throttling (KIP-219).
v2 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@request(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    groups_names: list[str]


@struct
class DeletableGroupResult:
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE


@response(to=DeleteGroupsRequest)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
