"""DescribeTransactions (key 65): the state of transactions, from their coordinator (KIP-664)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@request(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    transactional_ids: list[str]


@struct
class TopicData:
    topic: str
    partitions: list[Int32]


@struct
class TransactionState:
    error_code: ErrorCode = ErrorCode.NONE
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@response(to=DescribeTransactionsRequest)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState]
