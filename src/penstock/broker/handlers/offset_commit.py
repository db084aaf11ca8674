"""OffsetCommit (key 8): a group says how far it has read. Served: v0 to v10.

v1 adds the member and its generation, and a timestamp for each partition that v2 replaces by a retention time for
all, which v5 drops. v6 adds leader epochs, v7 static members, v9 the epochs of newer groups, v10 names topics by
id. Kafka kept the offsets of v0 in ZooKeeper; here they are the group's like all others. From v9 on a group that
does not exist is told as such.

Errors stand with each partition; there is no room for one that concerns all.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.answers import answer
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.coordinator.group.offsets import refuse_commit
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
