"""OffsetDelete (key 47): delete committed offsets of a group (KIP-496). Served: v0.

Refused for topics that members of the group subscribe to, and for groups with members whose subscriptions the
coordinator does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(
    broker: Broker, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID, topics=[])
    return respond(
        lambda: broker.groups.write(request.group_id, lambda shard: shard.offsets.delete(request)), _refuse
    )


def _refuse(refusal: Refused) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=refusal.error, topics=[])
