"""DescribeLogDirs (key 35): the log directories of this node, and the size of each replica in them. Served: v0 to v5.

v3 adds an error for the whole response, v4 the total and usable bytes of the volume, v5 whether a directory is cordoned
(never here). An offline directory has only the error KAFKA_STORAGE_ERROR. The metadata log is not listed, as in
Kafka.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.names import METADATA_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.storage.store import DirectoryDescription


def handle(
    broker: Broker, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(directory, wanted) for directory in broker.logs.describe()]
    )


def _describe(directory: DirectoryDescription, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
        )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in directory.logs:
        if log.topic == METADATA_TOPIC or (wanted is not None and (log.topic, log.partition) not in wanted):
            continue
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic, partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size=log.size_bytes,
                offset_lag=log.offset_lag,
                is_future_key=log.is_future,
            )
        )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )
