"""AlterConfigs (key 33): replace all settings of a resource. Served: v0 to v2.

Settings that the request does not name return to their defaults, so clients should prefer IncrementalAlterConfigs.
Log levels cannot be set this way. v2 is flexible.
"""

from __future__ import annotations

from penstock.broker.altering import alter_on_broker
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


async def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=await alter_on_broker(broker, request, context))
