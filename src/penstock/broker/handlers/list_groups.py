"""ListGroups (key 16): the groups that this node coordinates. Served: v0 to v5.

v4 adds the state and a filter for it, v5 the type. While a shard is loading, the list would be incomplete, so the
request fails with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    if broker.groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    return ListGroupsResponse(
        groups=[
            group
            for shard in broker.groups.shards()
            for group in shard.administration.list_groups(
                states=request.states_filter, types=request.types_filter
            )
        ]
    )
