"""DescribeLogDirs and AlterReplicaLogDirs, which each broker answers for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client import errors
from penstock.client.admin.log_dirs import LogDirectory, Replica, ReplicaSize
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, known, value_or_error
from penstock.client.cluster import TopicPartition, by_topic
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


def describe_request(partitions: Sequence[TopicPartition] | None) -> DescribeLogDirsRequest:
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    return DescribeLogDirsRequest(topics=topics)


def read_described(response: DescribeLogDirsResponse) -> list[LogDirectory]:
    check(response.error_code)
    return sorted(map(_directory, response.results), key=lambda directory: directory.path)


def _directory(result: DescribeLogDirsResult) -> LogDirectory:
    replicas = [
        ReplicaSize(
            partition=TopicPartition(topic.name, partition.partition_index),
            size_bytes=partition.partition_size,
            offset_lag=partition.offset_lag,
            is_future=partition.is_future_key,
        )
        for topic in result.topics
        for partition in topic.partitions
    ]
    is_online = result.error_code is ErrorCode.NONE
    return LogDirectory(
        path=result.log_dir,
        replicas=tuple(sorted(replicas, key=lambda replica: (replica.partition, replica.is_future))),
        error=None if is_online else errors.of(result.error_code, about=result.log_dir),
        total_bytes=known(result.total_bytes),
        usable_bytes=known(result.usable_bytes),
        is_cordoned=result.is_cordoned,
    )


def alter_request(directories: Mapping[Replica, str]) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in directories.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )


def read_altered(response: AlterReplicaLogDirsResponse, broker: int) -> Results[Replica, None]:
    return {
        (replica := Replica(topic.topic_name, result.partition_index, broker)): value_or_error(
            result.error_code, None, replica, None
        )
        for topic in response.results
        for result in topic.partitions
    }
