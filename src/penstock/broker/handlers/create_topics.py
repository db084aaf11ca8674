"""CreateTopics (key 19): create topics, or find out whether they could be created. Served: v0 to v7.

v1 can validate only, and tells why a topic was refused. v4 takes -1 for the broker's number of partitions and
replicas. v5 tells partitions, replicas and settings of what was created, v7 its id. The answer comes when the
topics are committed and known to this node; a `timeout_ms` that is not positive gets REQUEST_TIMED_OUT at
once.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    try:
        return await broker.controller.create_topics(request, requested_by=context.requester())
    except Refused as refused:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=name, error_code=refused.error, error_message=refused.message)
                for name in dict.fromkeys(topic.name for topic in request.topics)
            ]
        )
