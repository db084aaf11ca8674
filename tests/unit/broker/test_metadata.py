"""Metadata: requested topics, leaders, and endpoints per listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.context import RequestContext
from penstock.broker.handlers.metadata import handle
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from penstock.protocol.types import ZERO_UUID, Uuid

NOT_ASKED = -(2**31)
Context = Callable[..., Any]


def ask(*names: str, create: bool = False, **fields: bool) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
        **fields,
    )


def errors(response: MetadataResponse) -> dict[str | None, ErrorCode]:
    return {topic.name: topic.error_code for topic in response.topics}


def only(response: MetadataResponse) -> MetadataResponseTopic:
    (topic,) = response.topics
    return topic


async def test_null_means_all_topics_and_an_empty_list_means_none(
    cluster: Any, broker: Any, context: Context
) -> None:
    cluster.add_topic("a")
    cluster.add_topic("b")

    everything = handle(broker, MetadataRequest(topics=None), context(version=12))
    nothing = handle(broker, MetadataRequest(topics=[]), context(version=12))

    assert set(errors(everything)) == {"a", "b"}
    assert nothing.topics == []


async def test_in_version_0_an_empty_list_means_all(cluster: Any, broker: Any, context: Context) -> None:
    cluster.add_topic("a")

    assert set(errors(handle(broker, MetadataRequest(topics=[]), context(version=0)))) == {"a"}


async def test_a_topic_is_described_with_leaders_replicas_and_id(
    cluster: Any, broker: Any, context: Context
) -> None:
    cluster.add_broker(2)
    cluster.add_topic("orders", partitions=2, replicas=(1, 2))

    topic = only(handle(broker, ask("orders"), context(version=12)))

    assert topic.topic_id == cluster.metadata.image.topics.get("orders").topic_id
    assert not topic.is_internal
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    assert topic.partitions[0].leader_id == 1
    assert topic.partitions[0].leader_epoch == 0
    assert topic.partitions[0].replica_nodes == [1, 2]
    assert topic.partitions[0].isr_nodes == [1, 2]
    assert topic.partitions[0].offline_replicas == []
    assert topic.topic_authorized_operations == NOT_ASKED


async def test_a_topic_named_twice_is_described_once(cluster: Any, broker: Any, context: Context) -> None:
    cluster.add_topic("a")

    assert len(handle(broker, ask("a", "a"), context(version=12)).topics) == 1


async def test_internal_topics_are_marked(cluster: Any, broker: Any, context: Context) -> None:
    cluster.add_topic("__consumer_offsets")

    assert only(handle(broker, ask("__consumer_offsets"), context(version=12))).is_internal


async def test_unknown_and_impossible_names_have_their_own_errors(broker: Any, context: Context) -> None:
    response = handle(broker, ask("absent", "../x", ""), context(version=12))

    assert errors(response) == {
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "../x": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


async def test_topics_are_asked_for_by_id(cluster: Any, broker: Any, context: Context) -> None:
    cluster.add_topic("orders")
    known = cluster.metadata.image.topics.get("orders").topic_id
    unknown = Uuid(b"x" * 16)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=id_, name=None) for id_ in (known, unknown, known)],
        allow_auto_topic_creation=True,
    )

    response = handle(broker, request, context(version=12))

    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ("orders", known, ErrorCode.NONE),
    ]


async def test_clients_see_the_endpoints_of_their_own_listener(
    cluster: Any, broker: Any, context: Context
) -> None:
    cluster.add_broker(2, listeners=("PLAINTEXT", "INSIDE"))

    outside = handle(broker, ask(), context(version=12))
    inside = handle(broker, ask(), context(version=12, listener="INSIDE"))

    assert [(node.node_id, node.host, node.port, node.rack) for node in outside.brokers] == [
        (1, "plaintext-1", 9001, "rack-1"),
        (2, "plaintext-2", 9002, "rack-2"),
    ]
    assert [(node.node_id, node.host) for node in inside.brokers] == [(2, "inside-2")]


async def test_fenced_nodes_are_not_shown_and_their_replicas_are_offline(
    cluster: Any, broker: Any, context: Context
) -> None:
    cluster.add_broker(2, fenced=True)
    cluster.add_topic("a", replicas=(1, 2))

    response = handle(broker, ask("a"), context(version=12))

    assert [node.node_id for node in response.brokers] == [1]
    assert only(response).partitions[0].offline_replicas == [2]
    assert only(response).partitions[0].replica_nodes == [1, 2]


async def test_version_0_omits_offline_replicas_and_returns_an_error(
    cluster: Any, broker: Any, context: Context
) -> None:
    cluster.add_topic("a", replicas=(1, 7))

    partition = only(handle(broker, ask("a"), context(version=0))).partitions[0]

    assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert partition.replica_nodes == [1]


@pytest.mark.parametrize(
    ("version", "error"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
async def test_a_leader_without_the_clients_listener(
    cluster: Any, broker: Any, context: Context, version: int, error: ErrorCode
) -> None:
    cluster.add_broker(2, listeners=("INSIDE",))
    cluster.add_topic("a", replicas=(2,))

    partition = only(handle(broker, ask("a"), context(version=version))).partitions[0]

    assert (partition.error_code, partition.leader_id) == (error, -1)


async def test_a_leader_that_is_not_available(cluster: Any, broker: Any, context: Context) -> None:
    cluster.add_topic("a", replicas=(9,))

    partition = only(handle(broker, ask("a"), context(version=12))).partitions[0]

    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_the_response_contains_cluster_id_and_controller(broker: Any, context: Context) -> None:
    response = handle(broker, ask(), context(version=12))

    assert response.cluster_id == "the-cluster"
    assert response.controller_id == 1


async def test_authorized_operations_are_returned_on_request(
    cluster: Any, broker: Any, context: Context
) -> None:
    cluster.add_topic("a")

    response = handle(
        broker,
        ask("a", include_topic_authorized_operations=True, include_cluster_authorized_operations=True),
        context(version=10),
    )

    assert only(response).topic_authorized_operations == 0b1101_1111_1000
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert handle(broker, ask(), context(version=10)).cluster_authorized_operations == NOT_ASKED


# -- auto-creation


class CreatingChannel:
    """A channel to a controller that creates topics after a turn of the loop, except some names."""

    def __init__(self, cluster: Any, refuse: dict[str, ErrorCode] | None) -> None:
        self.created: list[str] = []
        self._cluster = cluster
        self._refuse = refuse

    async def forward(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        assert (context.api_key, context.version) == (ApiKey.CREATE_TOPICS, 7)
        await asyncio.sleep(0)
        results = []
        for name in [topic.name for topic in request.topics]:
            error = ErrorCode.NOT_CONTROLLER if self._refuse is None else self._refuse.get(name)
            if error is None and name not in self._cluster.metadata.image.topics:
                self._cluster.add_topic(name)
                self.created.append(name)
            results.append(CreatableTopicResult(name=name, error_code=error or ErrorCode.NONE))
        return CreateTopicsResponse(topics=results)


async def test_a_missing_topic_is_created_and_described_in_one_response(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.channel = CreatingChannel(cluster, refuse={})
    cluster.add_topic("there")

    response = await handle(broker, ask("there", "new", "../x", create=True), context(version=12))

    assert errors(response) == {
        "there": ErrorCode.NONE,
        "new": ErrorCode.NONE,
        "../x": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert broker.channel.created == ["new"]


async def test_a_topic_that_cannot_be_created_gets_the_reason(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.channel = CreatingChannel(cluster, {"new": ErrorCode.INVALID_REPLICATION_FACTOR})
    waiting = handle(broker, ask("new", "race", create=True), context(version=12))
    cluster.add_topic("race")  # another client was faster

    assert errors(await waiting) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR, "race": ErrorCode.NONE}


async def test_without_a_controller_the_topic_is_unknown_as_yet(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.channel = CreatingChannel(cluster, refuse=None)

    response = await handle(broker, ask("new", create=True), context(version=12))

    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_no_topic_is_created_if_the_client_disables_it(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.channel = CreatingChannel(cluster, refuse={})

    response = handle(broker, ask("new", create=False), context(version=12))

    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_no_topic_is_created_if_the_broker_disables_it(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.settings = type(broker.settings).load({"auto.create.topics.enable": "false"})
    broker.channel = CreatingChannel(cluster, refuse={})

    response = handle(broker, ask("new", create=True), context(version=12))

    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_no_topic_is_created_by_id(cluster: Any, broker: Any, context: Context) -> None:
    broker.channel = CreatingChannel(cluster, refuse={})
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=Uuid(b"x" * 16), name="new")], allow_auto_topic_creation=True
    )

    response = handle(broker, request, context(version=12))

    assert [topic.error_code for topic in response.topics] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert ZERO_UUID not in [topic.topic_id for topic in response.topics]


async def test_a_topic_that_another_node_created_is_described_once_this_node_knows_it(
    cluster: Any, broker: Any, context: Context
) -> None:
    class Remote:
        """The controller is another node: its response arrives before its records do."""

        async def forward(
            self, request: CreateTopicsRequest, context: RequestContext
        ) -> CreateTopicsResponse:
            asyncio.get_running_loop().call_later(0.001, cluster.add_topic, "new")
            return CreateTopicsResponse(topics=[CreatableTopicResult(name="new")])

    broker.channel = Remote()

    assert errors(await handle(broker, ask("new", create=True), context(version=12))) == {
        "new": ErrorCode.NONE
    }
