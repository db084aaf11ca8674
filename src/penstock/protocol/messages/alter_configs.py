"""AlterConfigs (key 33): replace all the settings of a resource; settings that are not named get their defaults.

IncrementalAlterConfigs changes single settings, and should be used instead.

v1 responds before throttling (KIP-219).
v2 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class AlterableConfig:
    name: str
    value: str | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


@request(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


@response(to=AlterConfigsRequest)
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
