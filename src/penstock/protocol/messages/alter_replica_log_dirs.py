"""AlterReplicaLogDirs (key 34): move replicas of one broker to another of its log directories.

v1 responds before throttling (KIP-219).
v2 is flexible.

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@struct
class AlterReplicaLogDirTopic:
    name: str
    partitions: list[Int32]


@struct
class AlterReplicaLogDir:
    path: str
    topics: list[AlterReplicaLogDirTopic]


@request(key=34, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir]


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


@response(to=AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
