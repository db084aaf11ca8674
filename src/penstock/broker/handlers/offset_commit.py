"""OffsetCommit (key 8): a group says how far it has read. Served: v0 to v10.

v1 adds the member and its generation, and a timestamp for each partition that v2 replaces by a retention time for
all, which v5 drops. v6 adds leader epochs, v7 static members, v9 the epochs of newer groups, v10 names topics by
id. Kafka kept the offsets of v0 in ZooKeeper; here they are the group's like all others. From v9 on a group that
does not exist is told as such.

Errors stand with each partition; there is no room for one that concerns all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.answers import answer, answer_each, answer_later
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.coordinator.group.offset_commit import refuse_commit
from penstock.metadata.errors import Refused
from penstock.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(
    broker: Broker, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    version = context.version
    return answer(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.offsets.commit(request, version=version)
        ),
        lambda refusal: refuse_commit(request, refusal.error, image=broker.metadata.image, version=version),
    )


def can_follow(first: OffsetCommitRequest, following: OffsetCommitRequest) -> bool:
    """Of the same member: then what allows the first allows the other, see `Offsets.commit_all`."""
    return (
        first.group_id == following.group_id
        and first.member_id == following.member_id
        and first.generation_id_or_member_epoch == following.generation_id_or_member_epoch
        and first.group_instance_id == following.group_instance_id
    )


def handle_run(
    broker: Broker, requests: list[OffsetCommitRequest], context: RequestContext
) -> list[OffsetCommitResponse] | Awaitable[list[OffsetCommitResponse]]:
    """One write for all. Where the log refuses it, as it does if it is too large, each is tried for itself."""
    version = context.version

    def refuse_all(refusal: Refused) -> list[OffsetCommitResponse]:
        image = broker.metadata.image
        return [refuse_commit(request, refusal.error, image=image, version=version) for request in requests]

    try:
        responses = broker.groups.write(
            requests[0].group_id, lambda shard: shard.offsets.commit_all(requests, version=version)
        )
    except Refused:
        return answer_each([handle(broker, request, context) for request in requests])
    return answer_later(responses, refuse_all) if isinstance(responses, asyncio.Future) else responses
