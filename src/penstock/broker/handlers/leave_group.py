"""LeaveGroup (key 13): members leave a classic group, or are removed from it. Served: v0 to v5.

v3 adds several members per request, and static members (KIP-345), v5 a reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    broker: Broker, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    version = context.version
    return respond(
        lambda: broker.groups.write(request.group_id, lambda shard: shard.leave(request, version=version)),
        lambda refused: LeaveGroupResponse(error_code=refused.error),
    )
