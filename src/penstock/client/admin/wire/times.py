"""Fetch, to find out when the record at an offset was written.

A broker returns the whole batch with the record, however small the limit, and only for the first partition of a
request: so each partition has its own request.
"""

from __future__ import annotations

from penstock.client.admin.calls import MaxVersion
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, TimestampType
from penstock.records.errors import RecordsError

BY_NAME = MaxVersion(ApiKey.FETCH, 12)
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
    """The base timestamp of the batch at the offset, or its append time if the topic keeps that; None if there is
    none."""
    for topic in response.responses:
        for result in topic.partitions:
            if (
                result.error_code is not ErrorCode.NONE
                or result.records is None
                or len(result.records) < HEADER_BYTES
            ):
                return None
            assert isinstance(result.records, bytes | bytearray | memoryview), (
                "the records of a response are in memory"
            )
            try:
                header = kernel.read_header(memoryview(result.records))
            except RecordsError:  # an old format, with its timestamps elsewhere
                return None
            is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            time_ms = header.max_timestamp if is_append_time else header.base_timestamp
            return None if time_ms < 0 else time_ms
    return None
