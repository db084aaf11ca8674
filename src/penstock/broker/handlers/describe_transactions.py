"""DescribeTransactions (key 65): the state of transactions. Served: v0.

Each transaction is described once, even if the request repeats it: a small request must not cause a huge response.
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
