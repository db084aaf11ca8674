"""StreamsGroupHeartbeat (key 88): a member of a streams group joins, stays alive, and leaves. Served: v0.

Missing internal topics of the topology are created before the response is sent. The response still reports them as
missing, because it was decided before; the next heartbeat finds them. If they cannot be created, the status says why,
and the next heartbeat retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.group_responses import client_of
from penstock.coordinator.group.streams.checks import check_heartbeat
from penstock.coordinator.group.streams.configuring import StatusCode, summary
from penstock.coordinator.group.streams.responses import StreamsHeartbeat, error_response
from penstock.coordinator.group.streams.topology import UNDECIDED, InternalTopic
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

PROTOCOL = "streams"
FEATURE = "streams.version"
DEFAULT = -1  # replication factor: the default of the broker

CREATED = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
"""The heartbeat of another member may have created it."""


def is_enabled(broker: Broker, image: MetadataImage) -> bool:
    protocols = broker.settings.get("group.coordinator.rebalance.protocols")
    return PROTOCOL in protocols and image.features.get(FEATURE, 0) > 0


def handle(
    broker: Broker, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    client, version = client_of(context), context.version
    try:
        if not is_enabled(broker, broker.metadata.image):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        check_heartbeat(request)
        heartbeat = broker.groups.write(
            request.group_id, lambda shard: shard.streams.heartbeat(request, client=client, version=version)
        )
    except Refused as refused:
        return error_response(refused)
    if isinstance(heartbeat, asyncio.Future) or heartbeat.missing_topics:
        return _finish(broker, heartbeat)
    return heartbeat.response


async def _finish(
    broker: Broker, waiting: StreamsHeartbeat | asyncio.Future[StreamsHeartbeat]
) -> StreamsGroupHeartbeatResponse:
    try:
        heartbeat = await waiting if isinstance(waiting, asyncio.Future) else waiting
    except Refused as refused:
        return error_response(refused)
    response = heartbeat.response
    if heartbeat.missing_topics:
        failures = await _create(broker, heartbeat.missing_topics, timeout_ms=response.heartbeat_interval_ms)
        for status in response.status or () if failures else ():
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; they could not be created: {summary(failures)}"
    return response


async def _create(broker: Broker, topics: Sequence[InternalTopic], *, timeout_ms: int) -> list[str]:
    """Create topics; return those that could not be created, with the reason."""
    request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics], timeout_ms=timeout_ms)
    try:
        response = await broker.channel.ask(request, timeout_ms=timeout_ms)
    except Refused as refused:
        return [f"{topic.name} ({refused.message})" for topic in topics]
    return [
        f"{result.name} ({result.error_message or result.error_code.message})"
        for result in response.topics
        if result.error_code not in CREATED
    ]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=DEFAULT if topic.replication_factor == UNDECIDED else topic.replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.settings],
    )
