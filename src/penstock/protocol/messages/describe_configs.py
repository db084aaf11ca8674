"""DescribeConfigs (key 32): the settings of topics, brokers and other resources, and where each value comes from.

v0 says of a value only whether it is_default.
v1 returns config_source instead, and synonyms on demand (KIP-226).
v2 responds before throttling (KIP-219).
v3 returns config_type, and documentation on demand (KIP-569).
v4 is flexible.

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class DescribeConfigsResource:
    resource_type: Int8  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: str
    configuration_keys: list[str] | None  # None: all of them


@request(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: bool = field(since=1, default=False)
    include_documentation: bool = field(since=3, default=False)


@struct
class DescribeConfigsSynonym:
    name: str
    value: str | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    name: str
    value: str | None
    read_only: bool
    is_default: bool = field(until=0, default=False)
    # 1 topic, 2 broker, 3 all brokers, 4 static, 5 default, 6 logger.
    config_source: Int8 = field(since=1, default=-1, ignorable=True)
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym] = field(since=1, default=[], ignorable=True)
    config_type: Int8 = field(since=3, default=0, ignorable=True)
    documentation: str | None = field(since=3, default=None, ignorable=True)


@struct
class DescribeConfigsResult:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resource_type: Int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


@response(to=DescribeConfigsRequest)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
