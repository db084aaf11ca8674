"""DescribeTopicPartitions (key 75): the partitions of topics, with eligible leader replicas (KIP-966), in pages.
Served: v0.

Topics are ordered by name. A response contains at most `max.request.partition.size.limit` partitions; if there are
more, `next_cursor` is the next one. Unknown topics in the request get an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import ReachableBrokers
from penstock.broker.operations import NOT_ASKED, TOPIC_OPERATIONS
from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.names import fault_of_topic_name, is_internal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.types import ZERO_UUID


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    image = broker.metadata.image
    names = sorted({topic.name for topic in request.topics} or image.topics.by_name)
    first_index = 0
    if request.cursor is not None:
        cursor = request.cursor
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return _refuse(request)
        names = [name for name in names if name >= cursor.topic_name]
        first_index = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    limit = max(
        min(broker.settings.get("max.request.partition.size.limit"), request.response_partition_limit), 1
    )
    return _fill_page(broker, image, ReachableBrokers(image, context.listener), names, first_index, limit)


def _refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """An invalid cursor is reported for every topic, because the response has no error of its own."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name,
                topic_id=ZERO_UUID,
                is_internal=False,
                partitions=[],
                topic_authorized_operations=NOT_ASKED,
            )
            for topic in request.topics
        ]
    )


def _fill_page(
    broker: Broker,
    image: MetadataImage,
    reach: ReachableBrokers,
    names: list[str],
    first_index: int,
    limit: int,
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse(topics=[])
    remaining = limit
    for name in names:
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_missing_topic(name))
            continue
        end_index = min(first_index + remaining, len(topic.partitions))
        partitions = broker.partitions.visible_partitions(topic)
        response.topics.append(_describe(reach, topic, partitions, range(first_index, end_index)))
        if end_index < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end_index)
            break
        remaining -= max(end_index - first_index, 0)
        first_index = 0
    return response


def _missing_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    if fault_of_topic_name(name) is not None:
        return _without_partitions(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    return _without_partitions(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _without_partitions(error: ErrorCode, name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=is_internal(name),
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe(
    reach: ReachableBrokers, topic: TopicImage, partitions: Sequence[PartitionImage], indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_describe_partition(reach, index, partitions[index]) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe_partition(
    reach: ReachableBrokers, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if partition.leader in reach else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leaders),
        last_known_elr=list(partition.last_known_leaders),
        offline_replicas=reach.offline_replicas(partition),
    )
