"""DescribeConfigs (key 32): settings of topics, of this node and of other resources (KIP-919). Served: v0 to v4."""

from __future__ import annotations

from penstock.broker.config_descriptions import describe_configs
from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse


async def handle(
    server: ControllerServer, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    return await describe_configs(server, request, context.version)
