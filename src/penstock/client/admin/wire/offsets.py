"""ListOffsets and DeleteRecords, which the leader of a partition answers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.admin.offsets import ListedOffset
from penstock.client.admin.outcome import Answers
from penstock.client.admin.wire.reading import answer, by_topic, known
from penstock.client.cluster import TopicPartition
from penstock.client.errors import PenstockError
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NOT_A_REPLICA = -1


def list_request(
    moments: Mapping[TopicPartition, int], *, read_committed: bool, timeout_ms: int
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=NOT_A_REPLICA,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index, timestamp=moments[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(moments).items()
        ],
        timeout_ms=timeout_ms,
    )


def read_listed(response: ListOffsetsResponse) -> Answers[TopicPartition, ListedOffset]:
    answers: dict[TopicPartition, ListedOffset | PenstockError] = {}
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.partition_index)
            offset = ListedOffset(
                offset=told.offset,
                timestamp_ms=known(told.timestamp),
                leader_epoch=known(told.leader_epoch),
            )
            answers[partition] = answer(told.error_code, None, partition, offset)
    return answers


def delete_request(offsets: Mapping[TopicPartition, int], *, timeout_ms: int) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(
                        partition_index=index, offset=offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
        timeout_ms=timeout_ms,
    )


def read_deleted(response: DeleteRecordsResponse) -> Answers[TopicPartition, int]:
    answers: dict[TopicPartition, int | PenstockError] = {}
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.partition_index)
            answers[partition] = answer(told.error_code, None, partition, told.low_watermark)
    return answers
