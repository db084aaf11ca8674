"""BrokerHeartbeat (key 63): a broker shows the controller that it is alive (KIP-631).

It also reports how far it has read the metadata log, and asks to be unfenced or to shut down.

v1 adds offline_log_dirs (KIP-858).
v2 adds cordoned_log_dirs (KIP-1066).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64, Uuid


@request(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64  # the last that the broker has applied
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[Uuid] = field(since=1, default=[], tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(since=2, default=None, tag=1)  # None: no change


@response(to=BrokerHeartbeatRequest)
class BrokerHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool
