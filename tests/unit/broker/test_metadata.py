"""Metadata: who is asked about, who is shown, and through which listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.broker.handlers.metadata import handle
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
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


async def test_none_means_all_topics_and_an_empty_list_means_none(
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


async def test_version_0_leaves_out_what_it_cannot_reach_and_complains(
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


async def test_a_leader_that_is_gone(cluster: Any, broker: Any, context: Context) -> None:
    cluster.add_topic("a", replicas=(9,))

    partition = only(handle(broker, ask("a"), context(version=12))).partitions[0]

    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_the_answer_names_cluster_and_controller(broker: Any, context: Context) -> None:
    response = handle(broker, ask(), context(version=12))

    assert response.cluster_id == "the-cluster"
    assert response.controller_id == 1


async def test_authorized_operations_are_told_where_asked(
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


class CreatingController:
    """Creates what it is asked for, after a turn of the loop, save the names that it dislikes."""

    def __init__(self, cluster: Any, refuse: dict[str, ErrorCode] | None) -> None:
        self.created: list[str] = []
        self._cluster = cluster
        self._refuse = refuse

    async def create_topics_automatically(
        self, names: Sequence[str], *, requested_by: str
    ) -> dict[str, ErrorCode]:
        await asyncio.sleep(0)
        if self._refuse is None:
            raise Refused(ErrorCode.NOT_CONTROLLER)
        for name in names:
            if name not in self._refuse and name not in self._cluster.metadata.image.topics:
                self._cluster.add_topic(name)
                self.created.append(name)
        return self._refuse


async def test_a_missing_topic_is_created_and_described_in_one_answer(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.controller = CreatingController(cluster, refuse={})
    cluster.add_topic("there")

    response = await handle(broker, ask("there", "new", "../x", create=True), context(version=12))

    assert errors(response) == {
        "there": ErrorCode.NONE,
        "new": ErrorCode.NONE,
        "../x": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert broker.controller.created == ["new"]


async def test_a_topic_that_cannot_be_created_is_answered_with_the_reason(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.controller = CreatingController(cluster, {"new": ErrorCode.INVALID_REPLICATION_FACTOR})
    waiting = handle(broker, ask("new", "race", create=True), context(version=12))
    cluster.add_topic("race")  # somebody else was faster

    assert errors(await waiting) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR, "race": ErrorCode.NONE}


async def test_without_a_controller_the_topic_is_unknown_as_yet(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.controller = CreatingController(cluster, refuse=None)

    response = await handle(broker, ask("new", create=True), context(version=12))

    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_nothing_is_created_for_a_client_that_forbids_it(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.controller = CreatingController(cluster, refuse={})

    response = handle(broker, ask("new", create=False), context(version=12))

    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_nothing_is_created_where_the_broker_forbids_it(
    cluster: Any, broker: Any, context: Context
) -> None:
    broker.settings = type(broker.settings).load({"auto.create.topics.enable": "false"})
    broker.controller = CreatingController(cluster, refuse={})

    response = handle(broker, ask("new", create=True), context(version=12))

    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_nothing_is_created_by_id(cluster: Any, broker: Any, context: Context) -> None:
    broker.controller = CreatingController(cluster, refuse={})
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=Uuid(b"x" * 16), name="new")], allow_auto_topic_creation=True
    )

    response = handle(broker, request, context(version=12))

    assert [topic.error_code for topic in response.topics] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert ZERO_UUID not in [topic.topic_id for topic in response.topics]
