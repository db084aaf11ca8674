"""Topics that come into being because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

DEFAULT_COUNT = -1  # the broker's own: num.partitions, default.replication.factor (KIP-464)


async def create_missing_topics(broker: Broker, names: list[str]) -> dict[str, ErrorCode]:
    """Create topics with the broker's defaults; returns the reason for each that is not there afterwards.

    When it returns, what was created is in `broker.metadata.image`. A topic that somebody else created meanwhile
    is as good as one created here.
    """
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=DEFAULT_COUNT,
                replication_factor=DEFAULT_COUNT,
                assignments=[],
                configs=[],
            )
            for name in names
        ],
        timeout_ms=broker.settings.get("request.timeout.ms"),
    )
    response = await broker.controller.create_topics(request)
    return {
        topic.name: topic.error_code
        for topic in response.topics
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
