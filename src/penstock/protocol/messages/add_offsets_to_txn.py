"""AddOffsetsToTxn (key 25): add the group whose offsets a transaction will commit.

v1 responds before throttling (KIP-219).
v2 may return PRODUCER_FENCED (KIP-588).
v3 is flexible.
v4 may return TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@request(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@response(to=AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
