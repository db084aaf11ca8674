"""ConsumerGroupDescribe (key 69): the state, members and assignments of consumer groups. Served: v0, v1.

v1 tells which protocol each member speaks (KIP-1099). Groups of other types are GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.handlers.consumer_group_heartbeat import PROTOCOL
from penstock.broker.operations import GROUP_OPERATIONS
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    if PROTOCOL not in broker.settings.get("group.coordinator.rebalance.protocols"):
        return ConsumerGroupDescribeResponse(
            groups=[_refusal(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids]
        )
    groups = [_describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code is ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str) -> DescribedGroup:
    if not group_id:
        return _refusal(group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        return broker.groups.read(group_id, lambda shard: shard.consumer.describe(group_id))
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
        assignor_name="",
        members=[],
    )
