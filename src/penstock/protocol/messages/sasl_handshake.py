"""SaslHandshake (key 17): choose the SASL mechanism of a connection.

v0 is followed by bare SASL tokens, v1 by SaslAuthenticate requests (KIP-152). Neither is flexible, and there
will hardly be a v2: old clients do not negotiate this request's version (KAFKA-9577).
"""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode


@request(key=17, versions=(0, 1))
class SaslHandshakeRequest:
    mechanism: str


@response(to=SaslHandshakeRequest)
class SaslHandshakeResponse:
    error_code: ErrorCode = ErrorCode.NONE
    mechanisms: list[str]
