"""DeleteGroups (key 42): delete groups that have no members, with their offsets. Served: v0 to v2.

Each group is deleted or refused on its own. The response is sent when the deletions are committed.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import wait_for_all
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

logger = logging.getLogger(__name__)

Results = list[DeletableGroupResult]


async def handle(
    broker: Broker, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    group_ids = list(dict.fromkeys(request.groups_names))
    try:
        batches = _by_shard(broker, group_ids)
    except Refused as refusal:
        return DeleteGroupsResponse(results=_refuse(group_ids, refusal))
    pending = [(batch, _delete(broker, batch)) for batch in batches]
    await wait_for_all(response for _, response in pending if isinstance(response, asyncio.Future))
    results: Results = []
    for batch, response in pending:
        try:
            results += response if isinstance(response, list) else response.result()
        except Refused as refusal:
            results += _refuse(batch, refusal)
    for result in results:
        if result.error_code is ErrorCode.NONE:
            logger.info("deleted group %s, requested by %s", result.group_id, context.requester())
    return DeleteGroupsResponse(results=results)


def _by_shard(broker: Broker, group_ids: list[str]) -> list[list[str]]:
    """Group ids by shard: the groups of one shard are one write."""
    batches: dict[int, list[str]] = {}
    for group_id in group_ids:
        batches.setdefault(broker.groups.partition_of(group_id), []).append(group_id)
    return list(batches.values())


def _delete(broker: Broker, batch: list[str]) -> Results | asyncio.Future[Results]:
    try:
        return broker.groups.write(batch[0], lambda shard: shard.administration.delete(batch))
    except Refused as refusal:
        return _refuse(batch, refusal)


def _refuse(batch: list[str], refusal: Refused) -> Results:
    return [DeletableGroupResult(group_id=group_id, error_code=refusal.error) for group_id in batch]
