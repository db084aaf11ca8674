"""AddPartitionsToTxn (key 24): add the partitions that a transaction will write to.

Clients send v0 to v3; brokers send v4 and above, to ask a coordinator whether a produce belongs to a transaction.

v1 responds before throttling (KIP-219).
v2 may return PRODUCER_FENCED (KIP-588).
v3 is flexible.
v4 takes several transactions and adds verify_only; returns an error_code for the whole response (KIP-890).
v5 may return TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@struct
class AddPartitionsToTxnTopic:
    name: str
    partitions: list[Int32]


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: bool = False  # check, but do not add
    topics: list[AddPartitionsToTxnTopic]


@request(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field(since=4, default=[])
    v3_and_below_transactional_id: str = field(until=3, default="")
    v3_and_below_producer_id: Int64 = field(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3, default=[])


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: ErrorCode = ErrorCode.NONE


@struct
class AddPartitionsToTxnTopicResult:
    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


@response(to=AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = field(since=4, default=ErrorCode.NONE, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(since=4, default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(until=3, default=[])
