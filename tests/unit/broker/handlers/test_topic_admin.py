"""CreateTopics, DeleteTopics and CreatePartitions, in every version that is served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.types import ZERO_UUID
from unit.controller.clusters import new_topic

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", range(8))
async def test_a_topic_is_created_in_every_version(ask: Ask, admin_broker: Broker, version: int) -> None:
    response = await ask(CreateTopicsRequest(topics=[new_topic("t", 2, 1)]), version=version)

    (topic,) = response.topics
    assert topic.error_code is ErrorCode.NONE
    assert len(admin_broker.metadata.image.topics.by_name["t"].partitions) == 2
    if version >= 5:
        assert (topic.num_partitions, topic.replication_factor) == (2, 1)
        assert len(topic.configs) > 30
    if version >= 7:
        assert topic.topic_id == admin_broker.metadata.image.topics.by_name["t"].topic_id


async def test_without_a_controller_every_topic_is_refused(ask: Ask, no_controller: None) -> None:
    created = await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1), new_topic("u", 1, 1)]))
    deleted = await ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=1000)
    )
    grown = await ask(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        )
    )

    assert [topic.error_code for topic in created.topics] == [ErrorCode.NOT_CONTROLLER] * 2
    assert [topic.error_code for topic in deleted.responses] == [ErrorCode.NOT_CONTROLLER]
    assert [topic.error_code for topic in grown.results] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("version", range(7))
async def test_a_topic_is_deleted_by_name_in_every_version(
    ask: Ask, admin_broker: Broker, version: int
) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1)]))
    request = DeleteTopicsRequest(topic_names=["t", "nosuch"], timeout_ms=1000)
    if version >= 6:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in ("t", "nosuch")],
            timeout_ms=1000,
        )

    response = await ask(request, version=version)

    assert [(result.name, result.error_code) for result in response.responses] == [
        ("t", ErrorCode.NONE),
        ("nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert "t" not in admin_broker.metadata.image.topics


async def test_a_topic_is_deleted_by_id(ask: Ask, admin_broker: Broker) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1)]))
    topic_id = admin_broker.metadata.image.topics.by_name["t"].topic_id

    response = await ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1000)
    )

    assert [(result.name, result.topic_id) for result in response.responses] == [("t", topic_id)]
    assert "t" not in admin_broker.metadata.image.topics


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_grows_in_every_version(ask: Ask, admin_broker: Broker, version: int) -> None:
    await ask(CreateTopicsRequest(topics=[new_topic("t", 1, 1)]))

    response = await ask(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        ),
        version=version,
    )

    assert [result.error_code for result in response.results] == [ErrorCode.NONE]
    assert len(admin_broker.metadata.image.topics.by_name["t"].partitions) == 3
