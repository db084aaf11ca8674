"""FindCoordinator (key 10): which broker coordinates a group, a transaction or a share partition.

v1 adds key_type; returns throttle_time_ms and error_message.
v2 responds before throttling (KIP-219).
v3 is flexible.
v4 asks for several keys at once: coordinator_keys, coordinators (KIP-699).
v5 may return TRANSACTION_ABORTABLE (KIP-890).
v6 takes key type 2, share, whose keys read `group:topic id:partition` (KIP-932).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@request(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    key: str = field(until=3, default="")
    key_type: Int8 = field(since=1, default=0)  # 0 group, 1 transaction, 2 share partition
    coordinator_keys: list[str] = field(since=4, default=[])


@struct
class Coordinator:
    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@response(to=FindCoordinatorRequest)
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: ErrorCode = field(until=3, default=ErrorCode.NONE)
    error_message: str | None = field(since=1, until=3, default=None, ignorable=True)
    node_id: Int32 = field(until=3, default=0)
    host: str = field(until=3, default="")
    port: Int32 = field(until=3, default=0)
    coordinators: list[Coordinator] = field(since=4, default=[])
