"""JoinGroup (key 11): a member enters a classic group, or begins a rebalance. Served: v0 to v9.

v1 tells the rebalance timeout apart from the session's, v4 makes new members join twice (KIP-394), v5 knows
static members (KIP-345), v7 tells the protocol type (KIP-559), v8 takes a reason (KIP-800), v9 lets a leader skip
the assignment (KIP-814). The answer comes when everyone has joined.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_answers import answer, client_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(
    broker: Broker, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not request.group_id:
        return _refusal(ErrorCode.INVALID_GROUP_ID, request.member_id)
    shortest_ms = broker.settings.get("group.min.session.timeout.ms")
    longest_ms = broker.settings.get("group.max.session.timeout.ms")
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return _refusal(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    client, version = client_of(context), context.version
    return answer(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.join(request, client=client, version=version)
        ),
        lambda refused: _refusal(refused.error),
    )


def _refusal(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name="", leader="", member_id=member_id, members=[])
