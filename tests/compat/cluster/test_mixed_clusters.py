"""Apache Kafka's nodes as the judge: brokers of both kinds under a controller of either.

A topic has replicas on both brokers. Each broker leads in turn, and what the other one has replicated is read back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.mixed_cluster import MixedCluster
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

pytestmark = [pytest.mark.timeout(600), pytest.mark.penstock_only("runs clusters of both kinds of nodes")]

T = TypeVar("T")

PENSTOCK, KAFKA = 1, 2
"""The brokers."""
PARTITIONS = (0, 1)
OFFSETS_TOPIC = "__consumer_offsets"


@pytest.fixture(scope="module", params=["kafka", "penstock"], ids=["kafka-controller", "penstock-controller"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    folder: Path = tmp_path_factory.mktemp(f"under-{request.param}")
    cluster = MixedCluster(folder, controller=request.param, brokers=["penstock", "kafka"])
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
    cluster.check_outputs()


def test_either_broker_leads_and_the_other_has_everything(cluster: MixedCluster) -> None:
    topic = create_topic(cluster)
    expected: dict[int, list[bytes]] = {partition: [] for partition in PARTITIONS}

    for turn, leader in enumerate((PENSTOCK, KAFKA, PENSTOCK, KAFKA)):
        lead(cluster, topic, leader)
        for codec in ("none", "lz4", "zstd", "gzip", "snappy"):
            produce(cluster, topic, expected, f"{turn}-{codec}", codec)
        assert read(cluster, topic) == expected, f"led by {leader}"


def test_a_killed_broker_catches_up_and_leads(cluster: MixedCluster) -> None:
    topic = create_topic(cluster)
    expected: dict[int, list[bytes]] = {partition: [] for partition in PARTITIONS}

    for broker in (PENSTOCK, KAFKA):
        produce(cluster, topic, expected, f"before {broker} is killed")
        cluster.kill(broker)
        produce(cluster, topic, expected, f"without {broker}")
        cluster.restart(broker)
        cluster.await_in_sync(topic)
        lead(cluster, topic, broker)
        produce(cluster, topic, expected, f"led by {broker}")
        assert read(cluster, topic) == expected


def test_offsets_of_a_group_survive_the_move_of_its_coordinator(cluster: MixedCluster) -> None:
    topic = create_topic(cluster)
    expected: dict[int, list[bytes]] = {partition: [] for partition in PARTITIONS}
    group = f"group-{uuid.uuid4().hex[:8]}"
    produce(cluster, topic, expected, "input")

    for turn, coordinator in enumerate((PENSTOCK, KAFKA, PENSTOCK), start=1):
        once_settled(lambda offset=turn: commit(cluster, topic, group, offset=offset))  # type: ignore[misc]
        lead(cluster, OFFSETS_TOPIC, coordinator)
        found = once_settled(lambda: committed(cluster, topic, group))
        assert found == [turn, turn], f"coordinated by {coordinator}"


def test_transactions_span_partitions_of_both_brokers(cluster: MixedCluster) -> None:
    topic = create_topic(cluster)
    expected: dict[int, list[bytes]] = {partition: [] for partition in PARTITIONS}
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"id-{uuid.uuid4().hex[:8]}"}
    )
    producer.init_transactions(60)

    for turn, leader in enumerate((PENSTOCK, KAFKA)):
        # The coordinator is on one broker, the partitions are led by one each.
        lead(cluster, "__transaction_state", leader)
        lead(cluster, topic, PENSTOCK, partitions=(0,))
        lead(cluster, topic, KAFKA, partitions=(1,))
        for outcome in ("commit", "abort"):
            producer.begin_transaction()
            for partition in PARTITIONS:
                value = f"{turn} {outcome}".encode()
                producer.produce(topic, value, partition=partition)
                if outcome == "commit":
                    expected[partition].append(value)
            if outcome == "commit":
                producer.commit_transaction(60)
            else:
                producer.flush(60)
                producer.abort_transaction(60)
        assert read(cluster, topic) == expected
    lead(cluster, topic, PENSTOCK)
    assert read(cluster, topic) == expected
    lead(cluster, topic, KAFKA)
    assert read(cluster, topic) == expected


# -- what the tests do


def create_topic(cluster: MixedCluster) -> str:
    topic = f"mixed-{uuid.uuid4().hex[:8]}"
    assignment = [[PENSTOCK, KAFKA], [KAFKA, PENSTOCK]]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment)
    admin.create_topics([new], operation_timeout=60)[topic].result(60)
    cluster.await_in_sync(topic)
    return topic


def produce(
    cluster: MixedCluster, topic: str, expected: dict[int, list[bytes]], name: str, codec: str = "none"
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 5,
        }
    )
    failures: list[KafkaError] = []
    for index in range(50):
        for partition in PARTITIONS:
            value = f"{name} {index} ".encode() * (1 + index % 7)
            expected[partition].append(value)
            producer.produce(
                topic,
                value,
                key=str(index),
                partition=partition,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
    assert producer.flush(120) == 0
    assert failures == []


def end_offset(consumer: Consumer, topic: str, partition: int) -> int:
    """Raises OFFSET_NOT_AVAILABLE while a new leader does not know the high watermark."""
    _, high_watermark = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
    return int(high_watermark)


def read(cluster: MixedCluster, topic: str) -> dict[int, list[bytes]]:
    """All committed records of a topic, by partition."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in PARTITIONS}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in PARTITIONS])
        ends = {
            partition: once_settled(lambda partition=partition: end_offset(consumer, topic, partition))  # type: ignore[misc]
            for partition in PARTITIONS
        }

        def is_read() -> bool:
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                found[message.partition() or 0].append(value)
            positions = consumer.position([TopicPartition(topic, partition) for partition in PARTITIONS])
            return all(each.offset >= ends[each.partition] for each in positions)

        wait_until(is_read, f"{topic} is read", seconds=60)
    finally:
        consumer.close()
    return found


def once_settled(action: Callable[[], T]) -> T:
    """The result, once the coordinator or leader has moved: until then clients may get a retriable error."""
    results: list[T] = []

    def is_done() -> bool:
        try:
            results.append(action())
        except KafkaException as error:
            if error.args[0].code() not in (
                KafkaError.NOT_COORDINATOR,
                KafkaError.NOT_LEADER_FOR_PARTITION,
                KafkaError.COORDINATOR_NOT_AVAILABLE,
                KafkaError._WAIT_COORD,
                KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
                KafkaError.OFFSET_NOT_AVAILABLE,
            ):
                raise
        return bool(results)

    wait_until(is_done, "the coordinator has moved", seconds=60)
    return results[0]


def commit(cluster: MixedCluster, topic: str, group: str, *, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(topic, partition, offset) for partition in PARTITIONS], asynchronous=False
    )
    consumer.close()


def committed(cluster: MixedCluster, topic: str, group: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, partition) for partition in PARTITIONS], timeout=60)
        return [each.offset for each in found]
    finally:
        consumer.close()


def lead(cluster: MixedCluster, topic: str, leader: int, partitions: tuple[int, ...] | None = None) -> None:
    """Make a broker the preferred leader of partitions, and elect it."""
    wanted = partitions or tuple(each.partition_index for each in cluster.partitions(topic))
    replicas = [leader, *(broker for broker in (PENSTOCK, KAFKA) if broker != leader)]
    moves = [ReassignablePartition(partition_index=partition, replicas=replicas) for partition in wanted]
    order = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=moves)])
    elect = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=list(wanted))])

    def is_led() -> bool:
        with WireConnection(cluster.nodes[leader].port) as connection:
            response = ask(connection, order, 0)
            assert response.error_code is ErrorCode.NONE, response
            response = ask(connection, elect, 2)
            assert response.error_code is ErrorCode.NONE, response
        leaders = {each.partition_index: each.leader_id for each in cluster.partitions(topic)}
        return all(leaders[partition] == leader for partition in wanted)

    cluster.await_in_sync(topic)
    wait_until(is_led, f"broker {leader} leads {topic}", seconds=60)
