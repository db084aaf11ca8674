"""SyncGroup (key 14): the leader sends all assignments, each member receives its own. Served: v0 to v5.

v3 adds static members (KIP-345), v5 the protocol of the member, to detect a mismatch (KIP-559). The response is sent
when the assignments are committed.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION = 5


def handle(
    broker: Broker, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    version = context.version
    if version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        return _refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return _refusal(ErrorCode.INVALID_GROUP_ID)
    return respond(
        lambda: broker.groups.write(request.group_id, lambda shard: shard.sync(request, version=version)),
        lambda refused: _refusal(refused.error),
    )


def _refusal(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")
