"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings. Served: v0 and v1.

The resource is a topic, this broker, all brokers (an empty name), a group, a metrics subscription, or the loggers of
this broker. A response without an error means that the change is committed and in force. v1 is flexible.
"""

from __future__ import annotations

from penstock.broker.altering import alter_on_broker
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=await alter_on_broker(broker, request, context))
