"""DeleteTopics (key 20): delete topics with all that is in them. Served: v0 to v6.

v3 has an error of its own for `delete.topic.enable=false`, where older versions get INVALID_REQUEST. v5 tells
why. v6 takes names or ids. The answer comes when the deletion is committed; files go a little later
(`file.delete.delay.ms`).
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
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
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    wanted = request.topics
    if context.version < ID_VERSION:
        wanted = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    try:
        return await broker.controller.delete_topics(
            wanted,
            timeout_ms=request.timeout_ms,
            version=context.version,
            requested_by=context.requester(),
        )
    except Refused as refused:
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=refused.error,
                    error_message=refused.message,
                )
                for topic in wanted
            ]
        )
