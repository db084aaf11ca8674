"""DeleteTopics (key 20): delete topics and their records. Served: v0 to v6.

The active controller decides: see `controller_handlers.delete_topics`. The response waits a moment until the topics are
gone from this broker too.
"""

from __future__ import annotations

from penstock.broker.applied import until_applied
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


async def handle(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    before = broker.metadata.image.topics
    response: DeleteTopicsResponse = await broker.channel.forward(request, context)
    deleted = [result.name for result in response.responses if result.error_code is ErrorCode.NONE]
    known = [
        topic.topic_id for name in deleted if name is not None and (topic := before.get(name)) is not None
    ]

    def is_gone(image: MetadataImage) -> bool:
        """By id, because another client may have created a topic of the same name."""
        return all(topic_id not in image.topics.names_by_id for topic_id in known)

    await until_applied(broker, is_gone)
    return response
