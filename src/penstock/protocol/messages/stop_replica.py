"""StopReplica (key 5): a controller of the ZooKeeper days tells a broker to give up replicas.

Kafka 4.0 dropped it: brokers read the metadata log instead.

v1 adds broker_epoch, and groups partitions by topic (KIP-380).
v2 is flexible.
v3 has a leader_epoch and a delete_partition for each partition (KIP-570).
v4 adds is_kraft_controller (KIP-866).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class StopReplicaPartitionV0:
    topic_name: str
    partition_index: Int32


@struct
class StopReplicaTopicV1:
    name: str
    partition_indexes: list[Int32]


@struct
class StopReplicaPartitionState:
    partition_index: Int32
    leader_epoch: Int32 = -1
    delete_partition: bool


@struct
class StopReplicaTopicState:
    topic_name: str
    partition_states: list[StopReplicaPartitionState]


@request(key=5, versions=(0, 4), flexible=2)
class StopReplicaRequest:
    controller_id: Int32
    is_kraft_controller: bool = field(since=4, default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = field(since=1, default=-1, ignorable=True)
    delete_partitions: bool = field(until=2, default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(until=0, default=[])
    topics: list[StopReplicaTopicV1] = field(since=1, until=2, default=[])
    topic_states: list[StopReplicaTopicState] = field(since=3, default=[])


@struct
class StopReplicaPartitionError:
    topic_name: str
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@response(to=StopReplicaRequest)
class StopReplicaResponse:
    error_code: ErrorCode = ErrorCode.NONE
    partition_errors: list[StopReplicaPartitionError]
