"""DescribeTransactions (key 65): all that a coordinator knows of some transactions. Served: v0.

Each is described once, however often it is asked for: a small request must not become an answer that fills memory.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            broker.transactions.describe(transactional_id)
            for transactional_id in dict.fromkeys(request.transactional_ids)
        ]
    )
