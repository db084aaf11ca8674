"""Heartbeat (key 12): a member of a classic group shows that it is alive. Served: v0 to v4.

v3 adds static members (KIP-345). While the coordinator loads the group, every heartbeat succeeds, because its state is
not known yet.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    broker: Broker, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    version = context.version
    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.heartbeat(request, version=version)
        ),
        _refuse,
    )


def _refuse(refused: Refused) -> HeartbeatResponse:
    if refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=refused.error)
