"""DeleteTopics (key 20): delete topics and their records. Served: v0 to v6.

v3 adds an error for `delete.topic.enable=false`; older versions get INVALID_REQUEST. v5 adds error messages. v6 accepts
names or ids. The response is sent when the deletion is committed; files are deleted after `file.delete.delay.ms`.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.metadata.errors import Refused
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.types import ZERO_UUID

ID_VERSION = 6


async def handle(
    server: ControllerServer, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    return await server.controller.delete_topics(
        _wanted(request, context),
        timeout_ms=request.timeout_ms,
        version=context.version,
        requested_by=context.requester(),
    )


def refuse(request: DeleteTopicsRequest, refused: Refused, context: RequestContext) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=refused.error,
                error_message=refused.message,
            )
            for topic in _wanted(request, context)
        ]
    )


def _wanted(request: DeleteTopicsRequest, context: RequestContext) -> list[DeleteTopicState]:
    if context.version < ID_VERSION:
        return [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    return request.topics
