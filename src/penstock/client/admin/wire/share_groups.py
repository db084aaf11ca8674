"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.outcome import Answers
from penstock.client.admin.share_groups import ShareGroupOffset
from penstock.client.admin.wire.reading import answer, by_topic, check, known
from penstock.client.cluster import TopicPartition
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
) -> Answers[TopicPartition, ShareGroupOffset]:
    answers: dict[TopicPartition, ShareGroupOffset | PenstockError] = {}
    for group in response.groups:
        check(group.error_code, group.error_message, group_id)
        for topic in group.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.topic_name, told.partition_index)
                offset = ShareGroupOffset(
                    start_offset=known(told.start_offset),
                    leader_epoch=known(told.leader_epoch),
                    lag=known(told.lag),
                )
                answers[partition] = answer(told.error_code, told.error_message, partition, offset)
    return answers


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


def read_altered(response: AlterShareGroupOffsetsResponse, group_id: str) -> Answers[TopicPartition, None]:
    check(response.error_code, response.error_message, group_id)
    answers: dict[TopicPartition, PenstockError | None] = {}
    for topic in response.responses:
        for told in topic.partitions:
            partition = TopicPartition(topic.topic_name, told.partition_index)
            answers[partition] = answer(told.error_code, told.error_message, partition, None)
    return answers


def delete_request(group_id: str, topics: Sequence[str]) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics],
    )


def read_deleted(response: DeleteShareGroupOffsetsResponse, group_id: str) -> Answers[str, None]:
    check(response.error_code, response.error_message, group_id)
    return {
        told.topic_name: answer(told.error_code, told.error_message, told.topic_name, None)
        for told in response.responses
    }
