"""Metadata (key 3): the brokers of the cluster, and the leaders of partitions. Served: v0 to v13.

In v0 an empty list means all topics, in later versions null does. v0 returns an error for offline replicas. v4 can
disable auto-creation. v5 adds offline replicas. v8 adds authorized operations, those of the cluster up to v10. v10 adds
topic ids, and v12 requests by id.

A missing topic is created if both the client and `auto.create.topics.enable` allow it. The response then waits for the
creation, so that the client need not retry. The endpoints are those of the listener that the client uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import ReachableBrokers
from penstock.broker.internal_topics import create_topics_automatically
from penstock.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from penstock.metadata.errors import Refused
from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.names import fault_of_topic_name, is_internal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.types import ZERO_UUID, Uuid

LISTENER_ERROR_VERSION = 6  # before, a leader without the client's listener is LEADER_NOT_AVAILABLE
REQUEST_BY_ID_VERSION = 12


def handle(
    broker: Broker, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | asyncio.Future[MetadataResponse]:
    image = broker.metadata.image
    if _wants_all(request, context):
        names: list[str] = list(image.topics.by_name)
        topics: list[MetadataResponseTopic] = []
    else:
        names, topics = _read_request(image, request, context)
        missing = [name for name in names if name not in image.topics and fault_of_topic_name(name) is None]
        if missing and request.allow_auto_topic_creation and broker.settings.get("auto.create.topics.enable"):
            return asyncio.ensure_future(
                _create_and_respond(broker, request, context, names, topics, missing)
            )
    return _respond(broker, image, request, context, names, topics, refused={})


async def _create_and_respond(
    broker: Broker,
    request: MetadataRequest,
    context: RequestContext,
    names: list[str],
    topics: list[MetadataResponseTopic],
    missing: list[str],
) -> MetadataResponse:
    try:
        refused = await create_topics_automatically(broker, missing, context)
    except Refused:
        refused = {}  # no controller is available: the topic is unknown, and the client retries
    return _respond(broker, broker.metadata.image, request, context, names, topics, refused)


def _wants_all(request: MetadataRequest, context: RequestContext) -> bool:
    return request.topics is None or (context.version == 0 and not request.topics)


def _read_request(
    image: MetadataImage, request: MetadataRequest, context: RequestContext
) -> tuple[list[str], list[MetadataResponseTopic]]:
    """The distinct names in the request, and results for unknown ids.

    If any topic is given by id, names are ignored, as in Kafka.
    """
    wanted = request.topics or []
    ids = [topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID]
    if context.version < REQUEST_BY_ID_VERSION or not ids:
        return list(dict.fromkeys(topic.name or "" for topic in wanted)), []
    names: dict[str, None] = {}
    unknown: list[MetadataResponseTopic] = []
    for topic_id in dict.fromkeys(ids):
        name = image.topics.names_by_id.get(topic_id)
        if name is None:
            unknown.append(_missing_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        else:
            names[name] = None
    return list(names), unknown


def _respond(
    broker: Broker,
    image: MetadataImage,
    request: MetadataRequest,
    context: RequestContext,
    names: list[str],
    topics: list[MetadataResponseTopic],
    refused: dict[str, ErrorCode],
) -> MetadataResponse:
    reach = ReachableBrokers(image, context.listener)
    for name in names:
        topic = image.topics.get(name)
        if topic is not None:
            partitions = broker.partitions.visible_partitions(topic)
            topics.append(_describe_topic(image, reach, topic, partitions, context.version))
        elif fault_of_topic_name(name) is not None:
            topics.append(_missing_topic(ErrorCode.INVALID_TOPIC_EXCEPTION, name))
        else:
            error = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topics.append(_missing_topic(error, name))
    if request.include_topic_authorized_operations:
        for result in topics:
            result.topic_authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.node_id, host=endpoint.host, port=endpoint.port, rack=node.rack
            )
            for node, endpoint in reach.endpoints
        ],
        cluster_id=broker.cluster_id,
        controller_id=_controller_for_clients(broker.node_id, reach),
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _controller_for_clients(node_id: int, reach: ReachableBrokers) -> int:
    """This broker, if it is available: every broker forwards requests to the controller."""
    if node_id in reach:
        return node_id
    return reach.endpoints[0][0].node_id if reach.endpoints else -1


def _missing_topic(error: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=[],
    )


def _describe_topic(
    image: MetadataImage,
    reach: ReachableBrokers,
    topic: TopicImage,
    partitions: Sequence[PartitionImage],
    version: int,
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _describe_partition(image, reach, index, partition, version)
            for index, partition in enumerate(partitions)
        ],
    )


def _describe_partition(
    image: MetadataImage, reach: ReachableBrokers, index: int, partition: PartitionImage, version: int
) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    offline = reach.offline_replicas(partition)
    error = ErrorCode.NONE
    if version == 0 and offline:
        replicas = [node for node in replicas if node not in offline]
        isr = [node for node in isr if node not in offline]
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    leader = partition.leader
    if leader not in reach:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if version >= LISTENER_ERROR_VERSION and leader in image.brokers:
            error = ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
