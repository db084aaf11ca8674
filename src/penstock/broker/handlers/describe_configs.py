"""DescribeConfigs (key 32): the settings of topics, brokers and other resources. Served: v0 to v4.

v0 only says whether a value is the default. v1 adds the source and optional synonyms, v3 the type and optional
documentation. An empty list of keys means all, like null. Passwords are never returned.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.config_descriptions import describe_configs
from penstock.broker.context import RequestContext
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse


async def handle(
    broker: Broker, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    return await describe_configs(broker, request, context.version)
