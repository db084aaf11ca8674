"""CreatePartitions (key 37): add partitions to topics. Served: v0 to v3.

The active controller decides: see `controller_handlers.create_partitions`. The response waits a moment until this
broker has the new partitions too.
"""

from __future__ import annotations

from penstock.broker.applied import until_applied
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


async def handle(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    response: CreatePartitionsResponse = await broker.channel.forward(request, context)
    if request.validate_only:
        return response
    grown = {result.name for result in response.results if result.error_code is ErrorCode.NONE}
    counts = {topic.name: topic.count for topic in request.topics if topic.name in grown}

    def has_grown(image: MetadataImage) -> bool:
        return all(
            (topic := image.topics.get(name)) is None or len(topic.partitions) >= count
            for name, count in counts.items()
        )

    await until_applied(broker, has_grown)
    return response
