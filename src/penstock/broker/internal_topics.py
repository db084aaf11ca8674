"""Internal topics come into being with the first who needs them."""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.metadata.errors import Refused


async def create_internal_topic(broker: Broker, topic: str) -> str | None:
    """Why the topic could not be created, or None when it is there."""
    try:
        errors = await broker.controller.create_topics_automatically([topic])
    except Refused as refused:
        return f"{topic} could not be created: {refused.message}"
    error = errors.get(topic)
    return f"{topic} could not be created: {error.name}" if error else None
