"""ListOffsets and DeleteRecords, which partition leaders answer."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.admin.offsets import ListedOffset
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import known, value_or_error
from penstock.client.cluster import TopicPartition, by_topic
from penstock.protocol.constants import CONSUMER_REPLICA_ID
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


def list_request(
    moments: Mapping[TopicPartition, int], *, read_committed: bool, timeout_ms: int
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
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


def read_listed(response: ListOffsetsResponse) -> Results[TopicPartition, ListedOffset]:
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): value_or_error(
            result.error_code,
            None,
            partition,
            ListedOffset(
                offset=result.offset,
                timestamp_ms=known(result.timestamp),
                leader_epoch=known(result.leader_epoch),
            ),
        )
        for topic in response.topics
        for result in topic.partitions
    }


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


def read_deleted(response: DeleteRecordsResponse) -> Results[TopicPartition, int]:
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): value_or_error(
            result.error_code, None, partition, result.low_watermark
        )
        for topic in response.topics
        for result in topic.partitions
    }
