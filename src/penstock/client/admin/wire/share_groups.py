"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.results import Results
from penstock.client.admin.share_groups import ShareGroupOffset
from penstock.client.admin.wire.common import check, known, value_or_error
from penstock.client.cluster import TopicPartition, by_topic
from penstock.client.errors import PenstockError
from penstock.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from penstock.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)


def describe_request(
    group_id: str, partitions: Sequence[TopicPartition] | None
) -> DescribeShareGroupOffsetsRequest:
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)]
    )


def read_described(
    response: DescribeShareGroupOffsetsResponse, group_id: str
) -> Results[TopicPartition, ShareGroupOffset]:
    results: dict[TopicPartition, ShareGroupOffset | PenstockError] = {}
    for group in response.groups:
        check(group.error_code, group.error_message, group_id)
        for topic in group.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.topic_name, result.partition_index)
                offset = ShareGroupOffset(
                    start_offset=known(result.start_offset),
                    leader_epoch=known(result.leader_epoch),
                    lag=known(result.lag),
                )
                results[partition] = value_or_error(
                    result.error_code, result.error_message, partition, offset
                )
    return results


def alter_request(group_id: str, offsets: Mapping[TopicPartition, int]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )


def read_altered(response: AlterShareGroupOffsetsResponse, group_id: str) -> Results[TopicPartition, None]:
    check(response.error_code, response.error_message, group_id)
    return {
        (partition := TopicPartition(topic.topic_name, result.partition_index)): value_or_error(
            result.error_code, result.error_message, partition, None
        )
        for topic in response.responses
        for result in topic.partitions
    }


def delete_request(group_id: str, topics: Sequence[str]) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics],
    )


def read_deleted(response: DeleteShareGroupOffsetsResponse, group_id: str) -> Results[str, None]:
    check(response.error_code, response.error_message, group_id)
    return {
        result.topic_name: value_or_error(result.error_code, result.error_message, result.topic_name, None)
        for result in response.responses
    }
