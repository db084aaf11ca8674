"""`penstock.testing.Cluster`: real nodes that a test kills, pauses and cuts off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.brokers import answers
from harness.load import Load
from harness.own_load import OwnLoad, check_each_once_and_in_order
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.errors import UnknownTopicOrPartition
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.testing import BrokerFailed, Cluster

pytestmark = pytest.mark.penstock_only("tests Penstock's test cluster")
TOPIC = "orders"
METADATA_VERSION = 12


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        cluster.admin().create_topic(TOPIC, partitions=3)
        yield cluster


def test_records_survive_a_node_that_is_killed_and_started_again(cluster: Cluster) -> None:
    producer = cluster.producer(request_timeout_ms=5_000)
    producer.send(TOPIC, b"before", partition=0).result(60)
    dead = cluster.leader(TOPIC, 0)

    cluster.kill(dead)
    assert not cluster.is_running(dead)
    assert producer.send(TOPIC, b"after", partition=0).result(60).offset == 1
    assert cluster.leader(TOPIC, 0) != dead

    cluster.start(dead)
    cluster.wait_until_in_sync(TOPIC)
    messages = cluster.consumer(TOPIC).read(until="end").to_messages()
    assert [message.value for message in messages] == [b"before", b"after"]


def test_a_paused_leader_loses_its_partitions_and_joins_again(cluster: Cluster) -> None:
    producer = cluster.producer(request_timeout_ms=2_000)
    producer.send(TOPIC, b"before", partition=0).result(60)
    paused = cluster.leader(TOPIC, 0)

    cluster.pause(paused)
    assert producer.send(TOPIC, b"after", partition=0).result(60).offset == 1

    cluster.resume(paused)
    cluster.wait_until_in_sync(TOPIC)


def test_no_acknowledged_record_is_lost_when_the_active_controller_is_cut_off(cluster: Cluster) -> None:
    """It leads partitions, and clients still reach it: what it takes then must not be acknowledged."""
    alone = cluster.controller()
    majority = next(cluster.port(each) for each in cluster.node_ids if each != alone)
    with Load(cluster.bootstrap, TOPIC) as load:
        load.wait_for_more()
        cluster.partition({alone})
        wait_until(lambda: alone not in leaders(majority), "the others have elected leaders")
        load.wait_for_more()
        cluster.heal()
        cluster.wait_until_in_sync(TOPIC)
        load.wait_for_more()

    check_each_once_and_in_order(OwnLoad.stored_in(cluster.bootstrap, TOPIC), load.written)


def leaders(port: int) -> set[int]:
    """As one node knows them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    with WireConnection(port) as connection:
        (topic,) = ask(connection, request, METADATA_VERSION).topics
    return {partition.leader_id for partition in topic.partitions}


def test_a_node_that_is_started_while_it_is_cut_off_serves_after_it_healed(cluster: Cluster) -> None:
    cluster.kill(3)
    cluster.partition({3})
    cluster.start(3)
    cluster.heal()

    assert answers(cluster.port(3))
    cluster.wait_until_in_sync(TOPIC)


def test_asking_for_a_topic_that_a_node_did_not_know_yet_was_an_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster._shared_admin()
    describe_topic, unknown_answers_left = admin.describe_topic, 2

    def describe_later(topic: str) -> object:
        nonlocal unknown_answers_left
        unknown_answers_left -= 1
        if unknown_answers_left >= 0:
            raise UnknownTopicOrPartition(f"there is no topic {topic}")
        return describe_topic(topic)

    monkeypatch.setattr(admin, "describe_topic", describe_later)
    assert cluster.leader(TOPIC, 0) in cluster.node_ids
    unknown_answers_left = 2
    cluster.wait_until_in_sync(TOPIC)


def test_mistakes_are_reported(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="there is no node 4; the nodes are 1, 2, 3"):
        cluster.kill(4)
    with pytest.raises(ValueError, match="only one group"):
        cluster.partition({1, 2}, {2, 3})
    with pytest.raises(BrokerFailed, match="node 1 is already running"):
        cluster.start(1)


def test_it_leaves_nothing_behind() -> None:
    with Cluster(nodes=1) as cluster:
        folder, port = cluster.folder, cluster.port(1)
        assert answers(port)

    assert not answers(port)
    assert not folder.exists()
    assert "closed" in repr(cluster)
