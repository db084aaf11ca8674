"""StreamsGroupDescribe (key 89): the state, topology, members and tasks of streams groups. Served: v0.

Groups of other types are GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.handlers.streams_group_heartbeat import is_enabled
from penstock.broker.operations import GROUP_OPERATIONS
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    if not is_enabled(broker, broker.metadata.image):
        return StreamsGroupDescribeResponse(
            groups=[_refusal(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids]
        )
    groups = [_describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code is ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str) -> DescribedGroup:
    if not group_id:
        return _refusal(group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        return broker.groups.read(group_id, lambda shard: shard.streams.describe(group_id))
    except Refused as refused:
        return _refusal(group_id, refused.error, refused.message)


def _refusal(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )
