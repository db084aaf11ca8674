"""ListConfigResources (key 74): the resources that have settings of their own.

v0, then called ListClientMetricsResources, lists client metrics only (KIP-1000).
v1 adds resource_types; none asks for every type (KIP-1142).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@request(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    resource_types: list[Int8] = field(since=1, default=[])


@struct
class ConfigResource:
    resource_name: str
    resource_type: Int8 = field(since=1, default=16, ignorable=True)  # 16: client metrics


@response(to=ListConfigResourcesRequest)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    config_resources: list[ConfigResource]
