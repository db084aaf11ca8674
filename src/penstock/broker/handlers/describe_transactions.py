"""DescribeTransactions (key 65): all that a coordinator knows of some transactions. Served: v0.

Each is described once, however often it is asked for: a small request must not become an answer that fills memory.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(broker, transactional_id)
            for transactional_id in dict.fromkeys(request.transactional_ids)
        ]
    )


def _describe(broker: Broker, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return _refuse(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        return broker.transactions.describe(transactional_id)
    except Refused as refusal:
        return _refuse(transactional_id, refusal.error)


def _refuse(transactional_id: str, error: ErrorCode) -> TransactionState:
    return TransactionState(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
