"""CreateTopics (key 19): create topics, or validate that they could be created. Served: v0 to v7.

The active controller decides: see `controller_handlers.create_topics`. The response waits a moment until this broker
knows the topics too: see `applied`.
"""

from __future__ import annotations

from penstock.broker.applied import until_created
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


async def handle(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    response: CreateTopicsResponse = await broker.channel.forward(request, context)
    if not request.validate_only:
        created = [topic.name for topic in response.topics if topic.error_code is ErrorCode.NONE]
        await until_created(broker, created)
    return response
