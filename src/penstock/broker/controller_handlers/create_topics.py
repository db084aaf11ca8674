"""CreateTopics (key 19): create topics, or validate that they could be created. Served: v0 to v7.

v1 adds `validate_only` and error messages. v4 accepts -1 for the broker's default partitions and replicas. v5 returns
partitions, replicas and settings, v7 topic ids. The response is sent when the topics are committed. A `timeout_ms` of 0
or less gets REQUEST_TIMED_OUT at once.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(
    server: ControllerServer, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    return await server.controller.create_topics(request, requested_by=context.requester())


def refuse(request: CreateTopicsRequest, refused: Refused, context: RequestContext) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=refused.error, error_message=refused.message)
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    )
