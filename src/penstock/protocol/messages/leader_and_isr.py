"""LeaderAndIsr (key 4): a controller of the ZooKeeper days tells a broker what it leads and follows.

Kafka 4.0 dropped it: brokers read the metadata log instead.

v1 adds is_new; may answer KAFKA_STORAGE_ERROR.
v2 adds broker_epoch, and groups partitions by topic (KIP-380).
v3 adds adding_replicas and removing_replicas (KIP-455).
v4 is flexible.
v5 names topics by id too, in the answer by it alone; adds type (KIP-516).
v6 adds leader_recovery_state (KIP-704).
v7 adds is_kraft_controller (KIP-866).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int8, Int32, Int64, Uuid


@struct
class LeaderAndIsrPartitionState:
    topic_name: str = field(until=1, default="", ignorable=True)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    partition_epoch: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32] = field(since=3, default=[], ignorable=True)
    removing_replicas: list[Int32] = field(since=3, default=[], ignorable=True)
    is_new: bool = field(since=1, default=False, ignorable=True)
    leader_recovery_state: Int8 = field(since=6, default=0)


@struct
class LeaderAndIsrTopicState:
    topic_name: str
    topic_id: Uuid = field(since=5, default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState]


@struct
class LeaderAndIsrLiveLeader:
    broker_id: Int32
    host_name: str
    port: Int32


@request(key=4, versions=(0, 7), flexible=4)
class LeaderAndIsrRequest:
    controller_id: Int32
    is_kraft_controller: bool = field(since=7, default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = field(since=2, default=-1, ignorable=True)
    type: Int8 = field(since=5, default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(until=1, default=[])
    topic_states: list[LeaderAndIsrTopicState] = field(since=2, default=[])
    live_leaders: list[LeaderAndIsrLiveLeader]


@struct
class LeaderAndIsrPartitionError:
    topic_name: str = field(until=4, default="", ignorable=True)
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class LeaderAndIsrTopicError:
    topic_id: Uuid
    partition_errors: list[LeaderAndIsrPartitionError]


@response(to=LeaderAndIsrRequest)
class LeaderAndIsrResponse:
    error_code: ErrorCode = ErrorCode.NONE
    partition_errors: list[LeaderAndIsrPartitionError] = field(until=4, default=[])
    topics: list[LeaderAndIsrTopicError] = field(since=5, default=[])
