"""LeaveGroup (key 13): members leave a classic group, or are removed from it. Served: v0 to v5.

v3 names several members, static ones by their instance (KIP-345), v5 takes a reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    broker: Broker, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    version = context.version
    return answer(
        lambda: broker.groups.write(request.group_id, lambda shard: shard.leave(request, version=version)),
        lambda refused: LeaveGroupResponse(error_code=refused.error),
    )
