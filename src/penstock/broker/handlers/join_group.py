"""JoinGroup (key 11): a member enters a classic group, or begins a rebalance. Served: v0 to v9.

v1 tells the rebalance timeout apart from the session's, v4 makes new members join twice (KIP-394), v5 knows
static members (KIP-345), v7 tells the protocol type (KIP-559), v8 takes a reason (KIP-800), v9 lets a leader skip
the assignment (KIP-814). The answer comes when everyone has joined.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_answers import client_of
from penstock.coordinator.group.classic.member import join_refusal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_NAME_VERSION = 7  # before it, no protocol is an empty name


def handle(
    broker: Broker, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    version = context.version
    response = _ask(broker, request, context)
    if version >= NULL_NAME_VERSION:
        return response  # as it is, without one more step when it comes: bench "classic group"
    if isinstance(response, JoinGroupResponse):
        return in_version(response, version)
    return _in_version_later(response, version)


def in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if response.protocol_name is None and version < NULL_NAME_VERSION:
        response.protocol_name = ""
    return response


async def _in_version_later(response: Awaitable[JoinGroupResponse], version: int) -> JoinGroupResponse:
    return in_version(await response, version)


def _ask(
    broker: Broker, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not request.group_id:
        return join_refusal(ErrorCode.INVALID_GROUP_ID, request.member_id)
    shortest_ms = broker.settings.get("group.min.session.timeout.ms")
    longest_ms = broker.settings.get("group.max.session.timeout.ms")
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return join_refusal(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    client, version = client_of(context), context.version
    return answer(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.join(request, client=client, version=version)
        ),
        lambda refused: join_refusal(refused.error),
    )
