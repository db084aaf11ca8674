"""Fetch, to learn when the record at an offset was written; nothing else of it is read.

A broker gives the whole batch that holds the record, however little is asked for, and only for the first partition of
a request: so each partition is a request of its own.
"""

from __future__ import annotations

from penstock.client.admin.calls import Newest
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, TimestampType
from penstock.records.errors import RecordsError

BY_NAME = Newest(ApiKey.FETCH, 12)
AS_LITTLE_AS_CAN_BE = 1


def time_request(partition: TopicPartition, offset: int) -> FetchRequest:
    wanted = FetchPartition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=AS_LITTLE_AS_CAN_BE
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=AS_LITTLE_AS_CAN_BE,
        topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
    )


def read_time(response: FetchResponse) -> int | None:
    """When the batch at the offset was begun, or appended if the topic keeps that; None where there is none."""
    for topic in response.responses:
        for told in topic.partitions:
            if (
                told.error_code is not ErrorCode.NONE
                or told.records is None
                or len(told.records) < HEADER_BYTES
            ):
                return None
            assert isinstance(told.records, bytes | bytearray | memoryview), (
                "an answer's records are in memory"
            )
            try:
                header = kernel.read_header(memoryview(told.records))
            except RecordsError:  # a format of long ago, whose times are elsewhere
                return None
            is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            time_ms = header.max_timestamp if is_append_time else header.base_timestamp
            return None if time_ms < 0 else time_ms
    return None
