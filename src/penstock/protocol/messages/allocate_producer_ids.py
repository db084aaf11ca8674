"""AllocateProducerIds (key 67): a broker gets a block of producer ids from the controller (KIP-730)."""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@request(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1


@response(to=AllocateProducerIdsRequest)
class AllocateProducerIdsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    producer_id_start: Int64
    producer_id_len: Int32
