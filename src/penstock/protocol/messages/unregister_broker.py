"""UnregisterBroker (key 64): remove the registration of a broker that will not come back (KIP-631)."""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32


@request(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerRequest:
    broker_id: Int32


@response(to=UnregisterBrokerRequest)
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
