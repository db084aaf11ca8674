"""StreamsGroupDescribe (key 89): the state, topology, members and tasks of streams groups. Served: v0.

Groups of other types get GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_responses import describe_each
from penstock.broker.handlers.streams_group_heartbeat import is_enabled
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(
        groups=describe_each(
            request.group_ids,
            lambda group_id: broker.groups.read(group_id, lambda shard: shard.streams.describe(group_id)),
            _refusal,
            is_enabled=is_enabled(broker, broker.metadata.image),
            include_operations=request.include_authorized_operations,
        )
    )


def _refusal(group_id: str, error: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )
