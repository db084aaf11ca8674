"""AlterUserScramCredentials (key 51): set and delete SCRAM credentials (KIP-554).

The client salts the password itself; the broker never sees the plain text.
"""

from __future__ import annotations

from penstock.protocol.declare import request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@struct
class ScramCredentialDeletion:
    name: str
    mechanism: Int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


@struct
class ScramCredentialUpsertion:
    name: str
    mechanism: Int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: Int32
    salt: bytes
    salted_password: bytes


@request(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    user: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
