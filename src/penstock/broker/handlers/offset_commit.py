"""OffsetCommit (key 8): commit the offsets of a group. Served: v0 to v10.

v1 adds the member and its generation, and a timestamp per partition, which v2 replaces by a retention time, which v5
removes. v6 adds leader epochs, v7 static members, v9 member epochs of consumer groups and GROUP_ID_NOT_FOUND, v10 uses
topic ids. Kafka stored the offsets of v0 in ZooKeeper; here they are offsets of the group like all others.

The response has an error per partition, but none for the whole request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.responses import respond, respond_later, respond_to_each
from penstock.coordinator.group.offsets.commit import refuse_commit
from penstock.metadata.errors import Refused
from penstock.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(
    broker: Broker, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    version = context.version
    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda shard: shard.offsets.commit(request, version=version)
        ),
        lambda refusal: refuse_commit(request, refusal.error, image=broker.metadata.image, version=version),
    )


def can_follow(first: OffsetCommitRequest, following: OffsetCommitRequest) -> bool:
    """Requests of the same member pass the same checks, see `Offsets.commit_all`."""
    return (
        first.group_id == following.group_id
        and first.member_id == following.member_id
        and first.generation_id_or_member_epoch == following.generation_id_or_member_epoch
        and first.group_instance_id == following.group_instance_id
    )


def handle_run(
    broker: Broker, requests: list[OffsetCommitRequest], context: RequestContext
) -> list[OffsetCommitResponse] | Awaitable[list[OffsetCommitResponse]]:
    """One write for all requests. If the log refuses it, for example because it is too large, each is written alone."""
    version = context.version

    def refuse_all(refusal: Refused) -> list[OffsetCommitResponse]:
        image = broker.metadata.image
        return [refuse_commit(request, refusal.error, image=image, version=version) for request in requests]

    try:
        responses = broker.groups.write(
            requests[0].group_id, lambda shard: shard.offsets.commit_all(requests, version=version)
        )
    except Refused:
        return respond_to_each([handle(broker, request, context) for request in requests])
    return respond_later(responses, refuse_all) if isinstance(responses, asyncio.Future) else responses
