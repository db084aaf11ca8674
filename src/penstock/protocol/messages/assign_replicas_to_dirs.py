"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas to the controller (KIP-858)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64, Uuid


@struct
class AssignReplicasToDirsRequestPartition:
    partition_index: Int32


@struct
class AssignReplicasToDirsRequestTopic:
    topic_id: Uuid
    partitions: list[AssignReplicasToDirsRequestPartition]


@struct
class AssignReplicasToDirsRequestDirectory:
    id: Uuid
    topics: list[AssignReplicasToDirsRequestTopic]


@request(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: list[AssignReplicasToDirsRequestDirectory]


@struct
class AssignReplicasToDirsResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class AssignReplicasToDirsResponseTopic:
    topic_id: Uuid
    partitions: list[AssignReplicasToDirsResponsePartition]


@struct
class AssignReplicasToDirsResponseDirectory:
    id: Uuid
    topics: list[AssignReplicasToDirsResponseTopic]


@response(to=AssignReplicasToDirsRequest)
class AssignReplicasToDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    directories: list[AssignReplicasToDirsResponseDirectory]
