"""CreatePartitions (key 37): add partitions to topics. Served: v0 to v3.

Versions differ only in encoding and throttling. Existing records are not moved, so older records of a key may be in
another partition than new ones.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    server: ControllerServer, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    return await server.controller.create_partitions(request, requested_by=context.requester())


def refuse(
    request: CreatePartitionsRequest, refused: Refused, context: RequestContext
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=refused.error, error_message=refused.message)
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    )
