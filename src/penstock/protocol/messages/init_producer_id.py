"""InitProducerId (key 22): get the id and epoch that make a producer idempotent or transactional.

v1 responds before throttling (KIP-219).
v2 is flexible.
v3 adds producer_id and producer_epoch, so that a producer can continue after a failure (KIP-360).
v4 may return PRODUCER_FENCED (KIP-588).
v5 may return TRANSACTION_ABORTABLE (KIP-890).
v6 adds two-phase commit (KIP-939). Unstable in Kafka 4.3, but there is no other way.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@request(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest:
    transactional_id: str | None  # None: an idempotent producer
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)
    enable_2pc: bool = field(since=6, default=False)
    keep_prepared_txn: bool = field(since=6, default=False)


@response(to=InitProducerIdRequest)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = field(since=6, default=-1)
