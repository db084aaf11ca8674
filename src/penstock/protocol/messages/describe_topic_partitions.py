"""DescribeTopicPartitions (key 75): topics with their partitions and eligible leader replicas, in pages (KIP-966).

An incomplete response says in `next_cursor` where it stopped; the next request passes that as `cursor`.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@struct
class TopicRequest:
    name: str


@struct
class Cursor:
    topic_name: str
    partition_index: Int32


@request(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest]  # empty: all topics
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: ErrorCode = ErrorCode.NONE
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: ErrorCode = ErrorCode.NONE
    name: str | None
    topic_id: Uuid
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -(2**31)  # a bit for each operation; the default: not requested


@response(to=DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
