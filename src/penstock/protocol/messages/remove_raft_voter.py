"""RemoveRaftVoter (key 81): remove a voter from the controller quorum (KIP-853)."""

from __future__ import annotations

from penstock.protocol.declare import request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Uuid


@request(key=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterRequest:
    cluster_id: str | None
    voter_id: Int32
    voter_directory_id: Uuid


@response(to=RemoveRaftVoterRequest)
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
