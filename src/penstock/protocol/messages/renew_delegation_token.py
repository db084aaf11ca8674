"""RenewDelegationToken (key 39): extend the lifetime of a delegation token, up to its maximum.

v1 responds before throttling (KIP-219).
v2 is flexible.

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@request(key=39, versions=(0, 2), flexible=2)
class RenewDelegationTokenRequest:
    hmac: bytes
    renew_period_ms: Int64


@response(to=RenewDelegationTokenRequest)
class RenewDelegationTokenResponse:
    error_code: ErrorCode = ErrorCode.NONE
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
