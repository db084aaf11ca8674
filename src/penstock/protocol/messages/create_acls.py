"""CreateAcls (key 30): add access rules.

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
class AclCreation:
    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = field(since=1, default=3)
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@request(key=30, versions=(0, 3), flexible=2)
class CreateAclsRequest:
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=CreateAclsRequest)
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
