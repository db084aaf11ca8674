"""FindCoordinator (key 10): which node coordinates a group or a transaction. Served: v0 to v6.

v1 adds the type of the key, v4 asks for several keys at once, v6 for share partitions.

It is the node that leads the partition of `__consumer_offsets` or `__transaction_state` that the name falls into. The
first who asks has that topic created, and is answered when it is there; Kafka answers COORDINATOR_NOT_AVAILABLE
meanwhile, which costs every first consumer and producer a retry. Share groups: INVALID_REQUEST, as Kafka answers where
they are switched off.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import alive_endpoint
from penstock.broker.internal_topics import create_internal_topic
from penstock.coordinator.partitioning import partition_of
from penstock.metadata.image import NO_LEADER
from penstock.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
SEVERAL_KEYS_VERSION = 4
NO_NODE_ID = -1


def handle(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = TOPICS.get(request.key_type)
    if topic is not None and broker.metadata.image.topics.get(topic) is None:
        return _create_and_answer(broker, request, context, topic)
    return _answer(broker, request, context)


async def _create_and_answer(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext, topic: str
) -> FindCoordinatorResponse:
    return _answer(broker, request, context, why_not=await create_internal_topic(broker, topic))


def _answer(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext, *, why_not: str | None = None
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if context.version >= SEVERAL_KEYS_VERSION else [request.key]
    found = [_find(broker, key, request.key_type, context, why_not) for key in keys]
    if context.version >= SEVERAL_KEYS_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(
    broker: Broker, key: str, key_type: int, context: RequestContext, why_not: str | None
) -> Coordinator:
    if key_type == SHARE:
        return _refuse(key, ErrorCode.INVALID_REQUEST, "share groups are not supported yet")
    name = TOPICS.get(key_type)
    if name is None:
        return _refuse(key, ErrorCode.INVALID_REQUEST, f"unknown coordinator type {key_type}")
    image = broker.metadata.image
    topic = image.topics.get(name)
    if topic is None:
        return _refuse(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, why_not or f"the topic {name} does not exist yet"
        )
    partition = partition_of(key, len(topic.partitions))
    leader = broker.partitions.as_served(topic)[partition].leader
    found = None if leader == NO_LEADER else alive_endpoint(image, leader, context.listener)
    if found is None:
        return _refuse(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition {name}-{partition} has no leader"
        )
    _, endpoint = found
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _refuse(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE_ID, host="", port=-1, error_code=error, error_message=message)
