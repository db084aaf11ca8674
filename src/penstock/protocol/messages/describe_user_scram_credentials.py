"""DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have; never the secrets (KIP-554)."""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class UserName:
    name: str


@request(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None  # None: all users


@struct
class CredentialInfo:
    mechanism: Int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    user: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    credential_infos: list[CredentialInfo]


@response(to=DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult]
