"""ExpireDelegationToken (key 40): shorten the life of a delegation token, or end it.

v1 responds before throttling (KIP-219).
v2 is flexible.

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@request(key=40, versions=(0, 2), flexible=2)
class ExpireDelegationTokenRequest:
    hmac: bytes
    expiry_time_period_ms: Int64  # negative: now


@response(to=ExpireDelegationTokenRequest)
class ExpireDelegationTokenResponse:
    error_code: ErrorCode = ErrorCode.NONE
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
