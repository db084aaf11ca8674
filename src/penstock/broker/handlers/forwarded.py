"""All requests that only the active controller can answer: CreateTopics, DescribeQuorum and others.

`controller_handlers` has a module for each of them. After a change of topics, the response waits until this broker has
applied it, so that the client sees its effect here.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.internal_topics import until_settled
from penstock.protocol.apis import ApiKey

TOPIC_CHANGES = (ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS)


def handle(broker: Broker, request: Any, context: RequestContext) -> Awaitable[Any]:
    if context.api_key in TOPIC_CHANGES:
        return _change_topics(broker, request, context)
    return broker.channel.forward(request, context)


async def _change_topics(broker: Broker, request: Any, context: RequestContext) -> Any:
    response = await broker.channel.forward(request, context)
    await until_settled(broker)
    return response
