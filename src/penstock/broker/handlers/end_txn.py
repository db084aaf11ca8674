"""EndTxn (key 26): commit or abort a producer's transaction. Served: v0 to v5.

The response is sent when the decision is committed; the markers follow. Before v2, producers do not know
PRODUCER_FENCED. From v5 on (KIP-890), the response contains a new epoch, and sometimes a new producer id, for the next
transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.metadata.errors import Refused
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(
    broker: Broker, request: EndTxnRequest, context: RequestContext
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    return respond(lambda: broker.transactions.end(request, version=context.version), _refuse)


def _refuse(refusal: Refused) -> EndTxnResponse:
    return EndTxnResponse(error_code=refusal.error)
