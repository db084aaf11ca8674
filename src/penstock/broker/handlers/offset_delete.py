"""OffsetDelete (key 47): forget a group's offsets for some partitions (KIP-496). Served: v0.

Refused for topics that the group's members read at the moment, and for groups with members of a kind whose
subscriptions the coordinator does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(
    broker: Broker, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID, topics=[])
    return answer(
        lambda: broker.groups.write(request.group_id, lambda shard: shard.offsets.delete(request)), _refuse
    )


def _refuse(refusal: Refused) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=refusal.error, topics=[])
