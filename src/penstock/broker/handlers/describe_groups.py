"""DescribeGroups (key 15): the state and the members of classic groups. Served: v0 to v6.

v3 adds authorized operations, v4 static members. A group that does not exist, or is of a newer type, is "Dead" before
v6; v6 returns GROUP_ID_NOT_FOUND with the reason.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.operations import GROUP_OPERATIONS
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    groups = [_describe(broker, group_id, context.version) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code is ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: Broker, group_id: str, version: int) -> DescribedGroup:
    try:
        return broker.groups.read(
            group_id, lambda shard: shard.administration.describe(group_id, version=version)
        )
    except Refused as refusal:
        return DescribedGroup(
            error_code=refusal.error,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
