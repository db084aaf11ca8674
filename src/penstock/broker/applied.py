"""Waits until this broker has applied a change that the active controller has committed.

In Kafka, a client that asks the same broker next may still see the state before its change. Here the response to a
change of topics waits for a moment. The waits have limits, because clients retry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from penstock.broker.broker import Broker
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

KNOWN_TIMEOUT_S = 1.0  # until this node has read what the controller has committed; usually some milliseconds
SETTLED_TIMEOUT_S = 30.0  # to open thousands of partitions on a slow disk


async def until_created(broker: Broker, names: Collection[str]) -> None:
    """Wait until this node has the topics and has opened its partitions of them."""
    await until_applied(broker, lambda image: all(name in image.topics for name in names))


async def until_applied(broker: Broker, is_applied: Callable[[MetadataImage], bool]) -> None:
    """Wait until the metadata of this node has the change, and all its parts have acted on it."""
    if not is_applied(broker.metadata.image):
        await _until_in_metadata(broker, is_applied)
    try:
        async with asyncio.timeout(SETTLED_TIMEOUT_S):
            await broker.metadata_settled()
    except TimeoutError:
        logger.warning(
            "a change of topics is not applied here after %d s; answering all the same", SETTLED_TIMEOUT_S
        )


async def _until_in_metadata(broker: Broker, is_applied: Callable[[MetadataImage], bool]) -> None:
    known: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(delta: MetadataDelta) -> None:
        if not known.done() and is_applied(delta.image):
            known.set_result(None)

    broker.metadata.subscribe(look)
    try:
        await asyncio.wait([known], timeout=KNOWN_TIMEOUT_S)
    finally:
        broker.metadata.unsubscribe(look)
