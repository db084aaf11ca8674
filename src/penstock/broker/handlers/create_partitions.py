"""CreatePartitions (key 37): give topics more partitions. Served: v0 to v3.

Versions differ in encoding and throttling only. Records that are in a topic stay where they are: keys that
hash to a new partition are found in the old one up to now.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    try:
        return await broker.controller.create_partitions(request, requested_by=context.requester())
    except Refused as refused:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=name, error_code=refused.error, error_message=refused.message
                )
                for name in dict.fromkeys(topic.name for topic in request.topics)
            ]
        )
