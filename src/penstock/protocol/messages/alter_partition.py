"""AlterPartition (key 56): the leader of a partition asks the controller to change its in-sync replicas (KIP-497).

v1 adds leader_recovery_state (KIP-704).
v2 names topics by id (KIP-841).
v3 adds the epoch of each broker in the new ISR: new_isr_with_epochs in place of new_isr (KIP-903).

Kafka 4.0 dropped v0 and v1.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int8, Int32, Int64, Uuid


@struct
class BrokerState:
    broker_id: Int32
    broker_epoch: Int64 = -1


@struct
class AlterPartitionRequestPartition:
    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32] = field(until=2, default=[])
    new_isr_with_epochs: list[BrokerState] = field(since=3, default=[])
    leader_recovery_state: Int8 = field(since=1, default=0)  # 1 after an unclean election, until recovered
    partition_epoch: Int32


@struct
class AlterPartitionRequestTopic:
    topic_name: str = field(until=1, default="", ignorable=True)
    topic_id: Uuid = field(since=2, default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartition]


@request(key=56, versions=(0, 3), flexible=0)
class AlterPartitionRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionRequestTopic]


@struct
class AlterPartitionResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = field(since=1, default=0, ignorable=True)
    partition_epoch: Int32


@struct
class AlterPartitionResponseTopic:
    topic_name: str = field(until=1, default="", ignorable=True)
    topic_id: Uuid = field(since=2, default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartition]


@response(to=AlterPartitionRequest)
class AlterPartitionResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[AlterPartitionResponseTopic]
