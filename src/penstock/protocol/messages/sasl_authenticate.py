"""SaslAuthenticate (key 36): one step of a SASL exchange, after SaslHandshake v1.

v1 returns session_lifetime_ms, after which the client must authenticate again (KIP-368).
v2 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int64


@request(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes


@response(to=SaslAuthenticateRequest)
class SaslAuthenticateResponse:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: bytes
    session_lifetime_ms: Int64 = field(since=1, default=0, ignorable=True)
