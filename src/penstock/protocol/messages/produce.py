"""Produce (key 0): append batches of records to partitions.

`acks` says when to respond: 0 never, 1 when the leader has written, -1 when all in-sync replicas have.

v1 returns throttle_time_ms.
v2 returns log_append_time_ms, and takes message set v1.
v3 adds transactional_id, and takes nothing but batch format v2.
v4 may return KAFKA_STORAGE_ERROR.
v5 returns log_start_offset.
v6 responds before throttling (KIP-219).
v7 takes zstd (KIP-110).
v8 names the invalid records of a batch: record_errors, error_message (KIP-467).
v9 is flexible.
v10 redirects a client from the wrong broker to the leader: current_leader, node_endpoints (KIP-951).
v11 may return TRANSACTION_ABORTABLE (KIP-890).
v12 adds partitions to a transaction as it writes to them, with no AddPartitionsToTxn before it (KIP-890).
v13 names topics by id (KIP-516).

Kafka 4.0 dropped v0 to v2, and yet advertises them: librdkafka turns features off unless it sees v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int16, Int32, Int64, Records, Uuid


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None  # a batch from v3 on, a message set before


@struct
class TopicProduceData:
    name: str = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@request(key=0, versions=(0, 13), flexible=9)
class ProduceRequest:
    transactional_id: str | None = field(since=3, default=None)
    acks: Int16
    timeout_ms: Int32  # how long acks=-1 may wait for the replicas
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32
    batch_index_error_message: str | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: Int64  # -1 if the batch was refused
    # -1 unless the topic stamps appends.
    log_append_time_ms: Int64 = field(since=2, default=-1, ignorable=True)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(since=8, default=[], ignorable=True)
    error_message: str | None = field(since=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(since=10, default=LeaderIdAndEpoch(), tag=0)


@struct
class TopicProduceResponse:
    name: str = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(to=ProduceRequest)
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(since=10, default=[], tag=0)
