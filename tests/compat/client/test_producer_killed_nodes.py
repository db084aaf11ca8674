"""Transactions on three nodes of Apache Kafka, whose coordinator and partition leader are killed meanwhile."""

from __future__ import annotations

import contextlib

from harness.admin import new_name
from harness.kafka_cluster import KafkaCluster
from harness.requests import ask
from harness.wire import WireConnection
from penstock import Admin, Consumer, Producer, errors
from penstock.client.coordinators import CoordinatorKind
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest

TRANSACTIONS = 30
RECORDS = 20


def coordinator_of(cluster: KafkaCluster, transactional_id: str) -> int:
    port = next(node.port for node in cluster.nodes.values() if node.is_alive())
    request = FindCoordinatorRequest(
        key_type=CoordinatorKind.TRANSACTION, coordinator_keys=[transactional_id]
    )
    with WireConnection(port) as connection:
        (found,) = ask(connection, request, 4).coordinators
    return int(found.node_id)


def test_transactions_continue_after_the_coordinator_and_the_leader_were_killed(
    kafka_cluster: KafkaCluster,
) -> None:
    topic, name = new_name("killed-transactions"), new_name("writer")
    with Admin(kafka_cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=2, replication_factor=3)
    kafka_cluster.leader_of(topic)
    committed: list[int] = []
    with Producer(
        kafka_cluster.bootstrap,
        transactional_id=name,
        request_timeout_ms=5_000,
        delivery_timeout_ms=60_000,
        batch_size=500,
    ) as producer:
        for number in range(TRANSACTIONS):
            with contextlib.suppress(errors.TransactionAborted), producer.transaction():
                for count in range(RECORDS):
                    producer.send(topic, f"{number}:{count}", partition=count % 2)
                    if number == 10 and count == 10:
                        killed = coordinator_of(kafka_cluster, name)
                        kafka_cluster.kill(killed)
                    if number == 20 and count == 10:
                        kafka_cluster.restart(killed)
                        kafka_cluster.await_in_sync(topic)
                        kafka_cluster.await_in_sync("__transaction_state")
                        kafka_cluster.kill(kafka_cluster.leader_of(topic, 0))
                if number % 5 == 4:
                    raise errors.TransactionAborted
            if number % 5 != 4:
                committed.append(number)

        with Consumer(
            topic, bootstrap_servers=kafka_cluster.bootstrap, isolation_level="read_committed"
        ) as consumer:
            messages = consumer.read(until="end").to_messages()
    by_partition: dict[int, list[str]] = {0: [], 1: []}
    for message in messages:
        by_partition[message.partition].append(message.value.decode())
    for partition in range(2):
        assert by_partition[partition] == [
            f"{number}:{count}" for number in committed for count in range(partition, RECORDS, 2)
        ]
