"""Log lines about changed topics and settings."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.config.alter import Change, Operation
from penstock.controller import changes
from penstock.controller.configs import Alteration
from penstock.metadata.resources import ConfigResource, broker_resource, topic_resource
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicState
from penstock.protocol.types import ZERO_UUID, uuid_text
from unit.controller.clusters import new_topic
from unit.controller.nodes import ControllerNode

LIDA = "User:lida at 10.0.0.7 (client id admin-1)"


@pytest.fixture
async def node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[ControllerNode]:
    node = ControllerNode(tmp_path)
    await node.start()
    caplog.clear()
    caplog.set_level(logging.INFO)
    yield node
    await node.close()


def logged(caplog: pytest.LogCaptureFixture, *, level: int = logging.INFO) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == changes.logger.name and record.levelno == level
    ]


async def create(node: ControllerNode, *topics: CreatableTopic) -> None:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1000)
    await node.controller.create_topics(request, requested_by=LIDA)


def with_settings(topic: CreatableTopic, **values: str) -> CreatableTopic:
    topic.configs = [
        CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in values.items()
    ]
    return topic


async def alter(node: ControllerNode, resource: ConfigResource, *changed: Change) -> None:
    await node.controller.alter_configs(
        [Alteration(resource, list(changed), is_replacement=False)], validate_only=False, requested_by=LIDA
    )


async def test_changes_of_a_topic_are_logged_with_the_requester(
    node: ControllerNode, caplog: pytest.LogCaptureFixture
) -> None:
    await create(node, with_settings(new_topic("orders", 2, 1), retention_ms="5000"))
    topic_id = uuid_text(node.image.topics.by_name["orders"].topic_id)
    wider = CreatePartitionsTopic(name="orders", count=6, assignments=None)
    await node.controller.create_partitions(
        CreatePartitionsRequest(topics=[wider], timeout_ms=1000, validate_only=False), requested_by=LIDA
    )
    retention, cleanup = "retention.ms", "cleanup.policy"
    await alter(node, topic_resource("orders"), Change(retention, Operation.SET, "9"))
    await alter(
        node,
        topic_resource("orders"),
        Change(retention, Operation.DELETE),
        Change(cleanup, Operation.SET, "delete"),
    )
    await alter(
        node, topic_resource("orders"), Change(cleanup, Operation.SET, "delete")
    )  # no change, no line
    wanted = [DeleteTopicState(name="orders", topic_id=ZERO_UUID)]
    await node.controller.delete_topics(wanted, timeout_ms=1000, version=6, requested_by=LIDA)

    assert logged(caplog) == [
        f"created topic orders with 2 partition(s), replication factor 1, topic id {topic_id} and settings "
        f"retention.ms=5000, requested by {LIDA}",
        f"increased the partitions of topic orders from 2 to 6, requested by {LIDA}",
        f"altered settings of topic orders: retention.ms: 5000 -> 9, requested by {LIDA}",
        "altered settings of topic orders: cleanup.policy: default -> delete, retention.ms: 9 -> default, "
        f"requested by {LIDA}",
        f"deleted topic orders with 6 partition(s), topic id {topic_id}, requested by {LIDA}",
    ]


async def test_secrets_are_not_in_the_log(node: ControllerNode, caplog: pytest.LogCaptureFixture) -> None:
    password = "listener.name.plaintext.ssl.keystore.password"
    await alter(node, broker_resource(1), Change(password, Operation.SET, "geheim"))
    await alter(node, broker_resource(1), Change("background.threads", Operation.SET, "12"))

    assert logged(caplog) == [
        f"altered settings of broker 1: {password}: default -> (hidden), requested by {LIDA}",
        f"altered settings of broker 1: background.threads: default -> 12, requested by {LIDA}",
    ]
    assert "geheim" not in caplog.text


async def test_a_request_for_thousands_of_topics_does_not_flood_the_log(
    node: ControllerNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LINES_MAX", 3)
    await create(node, *(new_topic(f"t{number}", 1, 1) for number in range(10)))

    assert len(logged(caplog)) == 4
    assert logged(caplog)[-1] == f"7 more changes, requested by {LIDA}"


async def test_a_line_that_cannot_be_written_does_not_stop_the_controller(
    node: ControllerNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("topic")

    monkeypatch.setattr(changes, "_topic_lines", fail)
    await create(node, new_topic("orders", 1, 1))

    assert "orders" in node.image.topics
    assert "logging a committed change of the metadata failed" in caplog.text
