"""AddRaftVoter (key 80): make a controller a voter of the quorum (KIP-853).

v1 adds ack_when_committed: with false the response is sent as soon as the change is written.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, UInt16, Uuid


@struct
class Listener:
    name: str
    host: str
    port: UInt16


@request(key=80, versions=(0, 1), flexible=0)
class AddRaftVoterRequest:
    cluster_id: str | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: bool = field(since=1, default=True)


@response(to=AddRaftVoterRequest)
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
