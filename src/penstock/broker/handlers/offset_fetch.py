"""OffsetFetch (key 9): the committed offsets of groups. Served: v0 to v10.

v2 accepts null for all topics, and adds an error for the whole group; older versions have it in each partition. v5 adds
leader epochs, v7 stable offsets, v8 several groups, v9 the member, v10 uses topic ids. Kafka read the offsets of v0
from ZooKeeper; here they are offsets of the group like all others.

A group that does not exist has no offsets, without an error. A request for stable offsets waits until pending writes
are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import wait_for_all
from penstock.coordinator.result import CoordinatorResult
from penstock.metadata.errors import Refused
from penstock.protocol.constants import UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_VERSION = 2
SEVERAL_GROUPS_VERSION = 8


DeferredResponse = OffsetFetchResponseGroup | asyncio.Future[OffsetFetchResponseGroup]


def handle(
    broker: Broker, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    groups = request.groups if context.version >= SEVERAL_GROUPS_VERSION else [_as_group(request)]
    responses = [_fetch(broker, group, request.require_stable, context.version) for group in groups]
    ready = [response for response in responses if isinstance(response, OffsetFetchResponseGroup)]
    if len(ready) == len(responses):
        return _respond(ready, context.version)
    return _respond_later(groups, responses, context.version)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def _fetch(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> DeferredResponse:
    try:
        if require_stable:
            return broker.groups.write(
                group.group_id,
                lambda shard: CoordinatorResult(
                    shard.offsets.fetch(group, require_stable=True, version=version)
                ),
            )
        return broker.groups.read(
            group.group_id, lambda shard: shard.offsets.fetch(group, require_stable=False, version=version)
        )
    except Refused as refusal:
        return _refuse(group, refusal, version)


async def _respond_later(
    groups: list[OffsetFetchRequestGroup], responses: list[DeferredResponse], version: int
) -> OffsetFetchResponse:
    await wait_for_all(response for response in responses if isinstance(response, asyncio.Future))
    ready: list[OffsetFetchResponseGroup] = []
    for group, response in zip(groups, responses, strict=True):
        try:
            ready.append(response.result() if isinstance(response, asyncio.Future) else response)
        except Refused as refusal:
            ready.append(_refuse(group, refusal, version))
    return _respond(ready, version)


def _refuse(group: OffsetFetchRequestGroup, refusal: Refused, version: int) -> OffsetFetchResponseGroup:
    error = refusal.error
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR  # consumers retry after it, but not after the other one
    topics: list[OffsetFetchResponseTopics] = []
    if version < GROUP_ERROR_VERSION:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=UNKNOWN_OFFSET, metadata="", error_code=error
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error)


def _respond(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= SEVERAL_GROUPS_VERSION:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
