"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings (KIP-339).

v1 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class AlterableConfig:
    name: str
    config_operation: Int8  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


@request(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


@response(to=IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
