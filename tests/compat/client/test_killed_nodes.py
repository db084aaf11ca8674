"""Three nodes of Apache Kafka, of which one is killed: the leader of a partition, or the coordinator of groups.

Nothing is lost, nothing is skipped by a group, and what comes twice was not committed yet.
"""

from __future__ import annotations

import pytest

from compat.conftest import StartHost
from compat.groups import members
from compat.groups.history import delivery_faults
from compat.groups.members import Group
from compat.groups.state import committed_offsets, end_offsets
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

pytestmark = pytest.mark.timeout(300)


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


def test_a_killed_leader_and_a_killed_coordinator_under_producers_and_groups(
    kafka_cluster: KafkaCluster, topic: str, host_of: StartHost
) -> None:
    cluster = kafka_cluster
    groups = {
        client: Group(cluster.bootstrap, new_name(f"killed-{client}"), topic, partition_count=PARTITION_COUNT)
        for client in OWN_CLIENTS
    }
    with OwnLoad(cluster.bootstrap, topic) as load:
        for client, group in groups.items():
            for name in ("a", "b"):
                group.join(host_of(client), name, client.settings)
        for group in groups.values():
            group.wait_until_shared_by("a", "b")

        def go_on_without(node_id: int) -> None:
            cluster.kill(node_id)
            load.wait_for_more()
            written = dict(load.written)
            for group in groups.values():
                group.wait_until_read(written)
            cluster.restart(node_id)
            cluster.await_in_sync(topic)
            cluster.await_in_sync("__consumer_offsets")

        go_on_without(cluster.leader_of(topic, 0))
        go_on_without(coordinator_of(cluster, groups[members.PENSTOCK_NEW].id))
    for client, group in groups.items():
        group.wait_until_read(load.written)
        group.leave_all()
        found = delivery_faults(group.history.events(), load.written, is_exactly_once=False)
        assert (str(client), found) == (str(client), [])
        assert committed_offsets(group) == end_offsets(group), client
    check_each_once_and_in_order(load.stored(), load.written)


def test_a_transaction_outlives_the_node_that_coordinates_it(kafka_cluster: KafkaCluster, topic: str) -> None:
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

    # The commit is decided when `transaction()` returns; the new coordinator writes its markers after that.
    wait_until(lambda: len(committed()) >= 12, "the records of both transactions can be read")
    assert committed() == list(range(12))
