"""AlterReplicaLogDirs (key 34): move replicas to another log directory of this node. Served: v0 to v2.

The response means that the move has started; DescribeLogDirs shows the future replica and its lag. A replica that is
assigned to this node but does not exist yet gets REPLICA_NOT_AVAILABLE, and will be created in the requested directory
(KIP-113). Moving a replica to its current directory cancels a move in progress.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.storage.errors import StorageError


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
            )
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_move(broker, topic.name, index, directory.path)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    if broker.metadata.image.topics.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        partition = broker.partitions.get(topic, index)
        if partition is not None and partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        broker.logs.move(topic, index, path)
        broker.partitions.find(topic, index)
    except StorageError as error:
        return ErrorCode[error.error_name]
    except Refused as refusal:
        # This API is older than NOT_LEADER_OR_FOLLOWER and uses another error.
        if refusal.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return refusal.error
    return ErrorCode.NONE
