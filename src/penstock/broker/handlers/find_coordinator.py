"""FindCoordinator (key 10): the coordinator of a group or a transactional id. Served: v0 to v6.

v1 adds the type of the key, v4 several keys per request, v6 share partitions.

The coordinator is the leader of the partition of `__consumer_offsets` or `__transaction_state` that the key hashes to.
The first request creates that topic and waits for it. Kafka responds with COORDINATOR_NOT_AVAILABLE meanwhile, which
costs the first consumer and producer a retry. Share groups get INVALID_REQUEST, as in Kafka if they are disabled.
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
        return _create_and_respond(broker, request, context, topic)
    return _respond(broker, request, context)


async def _create_and_respond(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext, topic: str
) -> FindCoordinatorResponse:
    return _respond(broker, request, context, creation_error=await create_internal_topic(broker, topic))


def _respond(
    broker: Broker,
    request: FindCoordinatorRequest,
    context: RequestContext,
    *,
    creation_error: str | None = None,
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if context.version >= SEVERAL_KEYS_VERSION else [request.key]
    found = [_find(broker, key, request.key_type, context, creation_error) for key in keys]
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
    broker: Broker, key: str, key_type: int, context: RequestContext, creation_error: str | None
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
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, creation_error or f"the topic {name} does not exist yet"
        )
    partition = partition_of(key, len(topic.partitions))
    leader = broker.partitions.visible_partitions(topic)[partition].leader
    found = None if leader == NO_LEADER else alive_endpoint(image, leader, context.listener)
    if found is None:
        return _refuse(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition {name}-{partition} has no leader"
        )
    _, endpoint = found
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _refuse(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE_ID, host="", port=-1, error_code=error, error_message=message)
