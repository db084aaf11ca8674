"""Envelope (key 58): a request that a broker forwards to the controller, with the principal it came from (KIP-590)."""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode


@request(key=58, versions=(0, 0), flexible=0)
class EnvelopeRequest:
    request_data: bytes  # header and body
    request_principal: bytes | None  # a DefaultPrincipalData, unless the principal builder has its own form
    client_host_address: bytes


@response(to=EnvelopeRequest)
class EnvelopeResponse:
    response_data: bytes | None = None
    error_code: ErrorCode = ErrorCode.NONE
