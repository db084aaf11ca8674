"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings. Served: v0 and
v1.

For topics, this node or all nodes (an empty name), groups, metrics subscriptions, and levels of this node's
loggers. What is answered without an error is committed and in force. v1 is flexible.
"""

from __future__ import annotations

from penstock.broker.altering import Wanted, alter
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    wanted = [
        Wanted(
            resource.resource_type,
            resource.resource_name,
            [(config.name, config.config_operation, config.value) for config in resource.configs],
            is_replacement=False,
        )
        for resource in request.resources
    ]
    response = IncrementalAlterConfigsResponse(responses=[])
    refusals = await alter(
        broker, wanted, validate_only=request.validate_only, requested_by=context.requester()
    )
    for resource, refusal in zip(request.resources, refusals, strict=True):
        answer = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        if refusal is not None:
            answer.error_code, answer.error_message = refusal.error, refusal.message
        response.responses.append(answer)
    return response
