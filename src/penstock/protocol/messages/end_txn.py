"""EndTxn (key 26): commit or abort a transaction.

v1 responds before throttling (KIP-219).
v2 may return PRODUCER_FENCED (KIP-588).
v3 is flexible.
v4 may return TRANSACTION_ABORTABLE (KIP-890).
v5 raises the producer's epoch with each transaction, and returns id and epoch for the next one (KIP-890).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@request(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@response(to=EndTxnRequest)
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    producer_id: Int64 = field(since=5, default=-1, ignorable=True)
    producer_epoch: Int16 = field(since=5, default=-1, ignorable=True)
