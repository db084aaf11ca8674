"""ConsumerGroupDescribe (key 69): the state, members and assignments of consumer groups. Served: v0, v1.

v1 adds the protocol of each member (KIP-1099). Groups of other types get GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_responses import describe_each
from penstock.broker.handlers.consumer_group_heartbeat import PROTOCOL
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=describe_each(
            request.group_ids,
            lambda group_id: broker.groups.read(group_id, lambda shard: shard.consumer.describe(group_id)),
            _refusal,
            is_enabled=PROTOCOL in broker.settings.get("group.coordinator.rebalance.protocols"),
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
        assignor_name="",
        members=[],
    )
