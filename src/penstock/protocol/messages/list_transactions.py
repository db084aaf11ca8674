"""ListTransactions (key 66): the transactions that a broker coordinates (KIP-664).

v1 adds duration_filter: only those that are older (KIP-994).
v2 adds transactional_id_pattern, a regular expression (KIP-1152).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@request(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    state_filters: list[str]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field(since=1, default=-1)  # -1: any
    transactional_id_pattern: str | None = field(since=2, default=None)


@struct
class TransactionState:
    transactional_id: str
    producer_id: Int64
    transaction_state: str


@response(to=ListTransactionsRequest)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    unknown_state_filters: list[str]
    transaction_states: list[TransactionState]
