"""OffsetFetch (key 9): how far groups have read. Served: v0 to v10.

v2 takes None for all topics, and has room for an error of the whole group, which older versions tell for each
partition. v5 tells leader epochs. v7 can ask for stable offsets, v8 for several groups, v9 says which member asks,
v10 names topics by id. Kafka read the offsets of v0 from ZooKeeper; here they are the group's like all others.

A group that does not exist has no offsets, which is no error. Whoever wants stable offsets waits until what is
being written is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.answers import settled
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.coordinator.outcome import Outcome
from penstock.metadata.errors import Refused
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

NO_OFFSET = -1

Answer = OffsetFetchResponseGroup | asyncio.Future[OffsetFetchResponseGroup]


def handle(
    broker: Broker, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    groups = request.groups if context.version >= SEVERAL_GROUPS_VERSION else [_as_group(request)]
    answers = [_fetch(broker, group, request.require_stable, context.version) for group in groups]
    given = [answer for answer in answers if isinstance(answer, OffsetFetchResponseGroup)]
    if len(given) == len(answers):
        return _respond(given, context.version)
    return _respond_later(groups, answers, context.version)


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


def _fetch(broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, version: int) -> Answer:
    try:
        if require_stable:
            return broker.groups.write(
                group.group_id,
                lambda shard: Outcome(shard.offsets.fetch(group, require_stable=True, version=version)),
            )
        return broker.groups.read(
            group.group_id, lambda shard: shard.offsets.fetch(group, require_stable=False, version=version)
        )
    except Refused as refusal:
        return _refuse(group, refusal, version)


async def _respond_later(
    groups: list[OffsetFetchRequestGroup], answers: list[Answer], version: int
) -> OffsetFetchResponse:
    await settled(answer for answer in answers if isinstance(answer, asyncio.Future))
    given: list[OffsetFetchResponseGroup] = []
    for group, answer in zip(groups, answers, strict=True):
        try:
            given.append(answer.result() if isinstance(answer, asyncio.Future) else answer)
        except Refused as refusal:
            given.append(_refuse(group, refusal, version))
    return _respond(given, version)


def _refuse(group: OffsetFetchRequestGroup, refusal: Refused, version: int) -> OffsetFetchResponseGroup:
    error = refusal.error
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = (
            ErrorCode.NOT_COORDINATOR
        )  # consumers take the other one for fatal here, and retry after this one
    topics: list[OffsetFetchResponseTopics] = []
    if version < GROUP_ERROR_VERSION:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
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
