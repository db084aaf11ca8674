"""Heartbeat (key 12): a member of a classic group shows that it is alive. Served: v0 to v4.

v3 knows static members (KIP-345). While the coordinator loads its groups every heartbeat is good, because
nobody can know better and the member need not do anything.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    broker: Broker, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    version = context.version
    return answer(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.heartbeat(request, version=version)
        ),
        _refuse,
    )


def _refuse(refused: Refused) -> HeartbeatResponse:
    if refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=refused.error)
