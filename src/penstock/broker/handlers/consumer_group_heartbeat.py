"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays alive, and leaves. Served: v0, v1.

v1 adds subscriptions by regular expression, and member ids that the client generates (KIP-1082).
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_responses import client_of
from penstock.broker.responses import respond
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PROTOCOL = "consumer"


def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    if PROTOCOL not in broker.settings.get("group.coordinator.rebalance.protocols"):
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, member_epoch=0, heartbeat_interval_ms=0
        )
    client, version = client_of(context), context.version
    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.consumer.heartbeat(request, client=client, version=version)
        ),
        _refusal,
    )


def _refusal(refused: Refused) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=refused.error,
        error_message=refused.message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
