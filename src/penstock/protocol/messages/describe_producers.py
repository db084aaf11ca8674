"""DescribeProducers (key 61): the idempotent and transactional producers that a partition's leader knows (KIP-664)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class TopicRequest:
    name: str
    partition_indexes: list[Int32]


@request(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    topics: list[TopicRequest]


@struct
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    name: str
    partitions: list[PartitionResponse]


@response(to=DescribeProducersRequest)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]
