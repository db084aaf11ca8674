"""AlterConfigs (key 33): replace all the settings of a resource. Served: v0 to v2.

What is not named goes back to its default, which is why clients should rather use IncrementalAlterConfigs;
levels of loggers can not be set in this way at all. v2 is flexible.
"""

from __future__ import annotations

from penstock.broker.altering import Wanted, alter
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.config.alter import Operation
from penstock.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    wanted = [
        Wanted(
            resource.resource_type,
            resource.resource_name,
            [(config.name, Operation.SET, config.value) for config in resource.configs],
            is_replacement=True,
        )
        for resource in request.resources
    ]
    response = AlterConfigsResponse(responses=[])
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
