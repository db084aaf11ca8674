"""Three nodes of Apache Kafka; one is killed: the leader of a partition, or a group coordinator.

Nothing is lost, no group skips a record, and only uncommitted records are delivered twice.
"""

from __future__ import annotations

import pytest

from compat.conftest import StartHost
from compat.groups import members
from compat.groups.crashes import (
    check_groups,
    join_two_members_each,
    make_groups,
    wait_until_groups_continue,
)
from harness.admin import new_name
from harness.kafka_cluster import KafkaCluster
from harness.own_load import OwnLoad, check_each_once_and_in_order
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock import Admin, Consumer, Producer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest

PARTITION_COUNT = 4
OWN_CLIENTS = [members.PENSTOCK_RANGE, members.PENSTOCK_COOPERATIVE, members.PENSTOCK_NEW]


@pytest.fixture
def topic(kafka_cluster: KafkaCluster) -> str:
    name = new_name("killed-nodes")
    with Admin(kafka_cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITION_COUNT, replication_factor=3)
    kafka_cluster.leader_of(name)
    return name


def coordinator_of(cluster: KafkaCluster, group: str) -> int:
    port = next(node.port for node in cluster.nodes.values() if node.is_alive())
    with WireConnection(port) as connection:
        (found,) = ask(connection, FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
    assert found.error_code == ErrorCode.NONE
    return int(found.node_id)


def test_groups_and_producers_survive_a_killed_leader_and_a_killed_coordinator(
    kafka_cluster: KafkaCluster, topic: str, host_of: StartHost
) -> None:
    cluster = kafka_cluster
    groups = make_groups(OWN_CLIENTS, cluster.bootstrap, new_name("killed"), topic, PARTITION_COUNT)
    with OwnLoad(cluster.bootstrap, topic) as load:
        join_two_members_each(groups, host_of)

        def kill_and_continue(node_id: int) -> None:
            cluster.kill(node_id)
            wait_until_groups_continue(groups, load)
            cluster.restart(node_id)
            cluster.await_in_sync(topic)
            cluster.await_in_sync("__consumer_offsets")

        kill_and_continue(cluster.leader_of(topic, 0))
        kill_and_continue(coordinator_of(cluster, groups[members.PENSTOCK_NEW].id))
    check_groups(groups, load.written)
    check_each_once_and_in_order(load.stored(), load.written)


def test_a_transaction_survives_its_killed_coordinator(kafka_cluster: KafkaCluster, topic: str) -> None:
    name = new_name("transactional")
    with Producer(kafka_cluster.bootstrap, transactional_id=name, max_block_ms=90_000) as producer:
        with producer.transaction():
            for number in range(10):
                producer.send(topic, b"%d" % number, partition=0)
        with producer.transaction():
            producer.send(topic, b"10", partition=0).result(timeout=60)
            port = next(node.port for node in kafka_cluster.nodes.values())
            with WireConnection(port) as connection:
                request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
                (found,) = ask(connection, request, 4).coordinators
            kafka_cluster.kill(int(found.node_id))
            producer.send(topic, b"11", partition=0)

    def committed() -> list[int]:
        with Consumer(
            topic, bootstrap_servers=kafka_cluster.bootstrap, isolation_level="read_committed"
        ) as consumer:
            return [int(message.value) for message in consumer.read(until="end").to_messages()]

    # The commit is decided when `transaction()` returns; the new coordinator writes the markers afterwards.
    wait_until(lambda: len(committed()) >= 12, "the records of both transactions can be read")
    assert committed() == list(range(12))
