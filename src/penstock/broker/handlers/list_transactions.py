"""ListTransactions (key 66): the transactions that this node coordinates. Served: v0 to v2.

Filters: state and producer id; from v1 on the duration of the transaction; from v2 on a pattern for the transactional
id (RE2).
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    try:
        return broker.transactions.list(request)
    except Refused as refusal:
        return ListTransactionsResponse(
            error_code=refusal.error, unknown_state_filters=[], transaction_states=[]
        )
