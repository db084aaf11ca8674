"""JoinGroup (key 11): a member joins a classic group or starts a rebalance. Served: v0 to v9.

v1 adds the rebalance timeout, v4 makes new members join twice (KIP-394), v5 adds static members (KIP-345), v7 the
protocol type (KIP-559), v8 a reason (KIP-800), v9 lets the leader skip the assignment (KIP-814). The response is sent
when all members have joined.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_responses import client_of
from penstock.broker.responses import respond
from penstock.coordinator.group.classic.member import join_error
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_NAME_VERSION = 7  # before, an empty name means no protocol


def handle(
    broker: Broker, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    version = context.version
    response = _join(broker, request, context)
    if version >= NULL_NAME_VERSION:
        return response  # without one more await: bench "classic group"
    if isinstance(response, JoinGroupResponse):
        return adapt_to_version(response, version)
    return _adapt_later(response, version)


def adapt_to_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if response.protocol_name is None and version < NULL_NAME_VERSION:
        response.protocol_name = ""
    return response


async def _adapt_later(response: Awaitable[JoinGroupResponse], version: int) -> JoinGroupResponse:
    return adapt_to_version(await response, version)


def _join(
    broker: Broker, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not request.group_id:
        return join_error(ErrorCode.INVALID_GROUP_ID, request.member_id)
    shortest_ms = broker.settings.get("group.min.session.timeout.ms")
    longest_ms = broker.settings.get("group.max.session.timeout.ms")
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    client, version = client_of(context), context.version
    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.join(request, client=client, version=version)
        ),
        lambda refused: join_error(refused.error),
    )
