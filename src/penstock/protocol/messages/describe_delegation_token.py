"""DescribeDelegationToken (key 41): the delegation tokens of some owners, or all that the caller may see.

v1 responds before throttling (KIP-219).
v2 is flexible.
v3 returns the requester of a token (KIP-373).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@struct
class DescribeDelegationTokenOwner:
    principal_type: str
    principal_name: str


@request(key=41, versions=(0, 3), flexible=2)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None  # None: everyone


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str
    principal_name: str


@struct
class DescribedDelegationToken:
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = field(since=3, default="")
    token_requester_principal_name: str = field(since=3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: str
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]


@response(to=DescribeDelegationTokenRequest)
class DescribeDelegationTokenResponse:
    error_code: ErrorCode = ErrorCode.NONE
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
