"""A broker that joins gets its share of replicas, and a drained one loses all of them, under load."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, Message, Producer

from harness.waiting import wait_until
from penstock import Admin
from penstock.admin import ConfigResource
from penstock.testing import Cluster

pytestmark = pytest.mark.penstock_only("runs a cluster of Penstock's nodes")

TOPIC = "t"
PARTITIONS = 12
DRAINED = "penstock.balancer.drained.brokers"


def test_replicas_move_to_a_new_broker_and_away_from_a_drained_one() -> None:
    settings = {"penstock.balancer.interval.ms": 500}
    with Cluster(nodes=4, settings=settings) as cluster, Admin(cluster.bootstrap_servers) as admin:
        # As if broker 4 had joined later.
        admin.create_topic(
            TOPIC, replicas=[[(index + step) % 3 + 1 for step in range(3)] for index in range(PARTITIONS)]
        )
        with load(cluster) as deliveries:
            wait_for(admin, {1: 9, 2: 9, 3: 9, 4: 9})
            admin.alter_config(ConfigResource.all_brokers(), append={DRAINED: "1"})
            wait_for(admin, {2: 12, 3: 12, 4: 12})

        assert deliveries.failures == []
        ends = admin.topic_offsets([TOPIC])
        assert sum(end.offset for end in ends.values()) == deliveries.count > 0


def wait_for(admin: Admin, expected: dict[int, int]) -> None:
    def replica_counts() -> Counter[int]:
        partitions = admin.describe_topic(TOPIC).partitions
        return Counter(node_id for partition in partitions for node_id in partition.replicas)

    wait_until(lambda: replica_counts() == expected, f"the brokers have {expected} replicas")


class Deliveries:
    def __init__(self) -> None:
        self.count = 0
        self.failures: list[KafkaError] = []

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.count += 1
        else:
            self.failures.append(error)


@contextmanager
def load(cluster: Cluster) -> Iterator[Deliveries]:
    """Produce with acks=all until the end of the block, then wait for all acknowledgements."""
    deliveries = Deliveries()
    is_over = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        number = 0
        while not is_over.is_set():
            producer.produce(
                TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=deliveries.delivered
            )
            number += 1
            producer.poll(0.005)
        producer.flush(60)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield deliveries
    finally:
        is_over.set()
        thread.join()
