"""DeleteAcls (key 31): remove the access rules that match filters.

v1 adds the pattern type of a resource name (KIP-290); responds before throttling (KIP-219).
v2 is flexible.
v3 knows users as resources (KIP-373).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class DeleteAclsFilter:
    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = field(since=1, default=3)
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@request(key=31, versions=(0, 3), flexible=2)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = field(since=1, default=3)
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


@response(to=DeleteAclsRequest)
class DeleteAclsResponse:
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
