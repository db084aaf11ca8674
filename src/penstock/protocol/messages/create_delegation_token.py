"""CreateDelegationToken (key 38): issue a token with which others can act for a principal (KIP-48).

v1 responds before throttling (KIP-219).
v2 is flexible.
v3 can issue a token for another principal: owner principal, token requester (KIP-373).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class CreatableRenewers:
    principal_type: str
    principal_name: str


@request(key=38, versions=(0, 3), flexible=2)
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = field(since=3, default=None)
    owner_principal_name: str | None = field(since=3, default=None)
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64  # -1: the broker's setting


@response(to=CreateDelegationTokenRequest)
class CreateDelegationTokenResponse:
    error_code: ErrorCode = ErrorCode.NONE
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = field(since=3, default="")
    token_requester_principal_name: str = field(since=3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: str
    hmac: bytes
    throttle_time_ms: Int32 = 0
