"""Creates topics on first use: internal ones, and those of clients with `auto.create.topics.enable`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.broker.applied import until_created
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.controller.topics import automatic_topics
from penstock.metadata.errors import Refused
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode

CREATE_TIMEOUT_MS = 5_000  # then the client retries; its request may be about topics that exist, too
CLUSTER_START_S = 60.0  # in which all brokers of a new cluster should register


async def create_internal_topic(broker: Broker, topic: str) -> str | None:
    """Create the topic; return why it could not be created, or None if it exists."""
    try:
        errors = await create_topics_automatically(broker, [topic], None)
    except Refused as refused:
        return f"{topic} could not be created: {refused.message}"
    error = errors.get(topic)
    return f"{topic} could not be created: {error.name}" if error else None


async def create_topics_automatically(
    broker: Broker, names: Sequence[str], context: RequestContext | None
) -> dict[str, ErrorCode]:
    """Create missing topics for a client, or for this node; return the errors of those that could not be created.
    Returns when this node knows the others. `Refused` if there is no active controller."""
    request = automatic_topics(names, broker.settings, broker_count=_expected_broker_count(broker))
    request.timeout_ms = CREATE_TIMEOUT_MS
    if context is None:
        response = await broker.channel.ask(request, timeout_ms=CREATE_TIMEOUT_MS)
    else:
        response = await broker.channel.forward(request, _for_creation(context))
    for topic in response.topics:
        if topic.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
            raise Refused(topic.error_code, topic.error_message)
    expected = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    errors = {topic.name: topic.error_code for topic in response.topics if topic.error_code not in expected}
    await until_created(broker, [name for name in names if name not in errors])
    return errors


def _expected_broker_count(broker: Broker) -> int:
    """How many brokers the cluster has when all have started. While it starts, an internal topic must not be created
    with one replica for ever, only because the others have not registered yet.

    Controllers are expected to be brokers, too, or to have as many brokers. Dedicated ones may have fewer: then the
    brokers count that have registered in the first minute.
    """
    image = broker.metadata.image
    registered = len(image.brokers)
    is_starting = asyncio.get_running_loop().time() < broker.started_s + CLUSTER_START_S
    if _has_dedicated_controllers(broker) and not is_starting:
        return registered
    voters = broker.settings.get("controller.quorum.voters")
    return max(registered, len(image.controllers), len(voters))


def _has_dedicated_controllers(broker: Broker) -> bool:
    """Whether no controller is known to be a broker, too."""
    if "controller" in broker.settings.roles:
        return False
    image = broker.metadata.image
    return not any(node_id in image.brokers for node_id in image.controllers)


def _for_creation(context: RequestContext) -> RequestContext:
    """The context of a request that a client did not send, but caused."""
    return RequestContext(
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_TOPICS.last_version,
        context.correlation_id,
        context.client_id,
        context.peer_host,
        context.listener,
        context.principal,
        context.connection,
    )
