"""A cluster from property files with Kafka's names, as processes: a controller of a dynamic quorum and two brokers."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.brokers import free_port, penstock_command
from harness.waiting import wait_until

pytestmark = pytest.mark.penstock_only("runs a cluster of Penstock's nodes")

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
OTHER_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class NodeProcess:
    def __init__(self, folder: Path, properties: str) -> None:
        folder.mkdir(parents=True)
        self.file = folder / "server.properties"
        self.file.write_text(f"{properties}\nlog.dirs={folder / 'data'}\n")
        self.output_file = folder / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        command = [*penstock_command(), "storage", "format", str(self.file), "--cluster-id", cluster_id]
        subprocess.run([*command, *options], check=True, capture_output=True)

    def launch(self) -> subprocess.Popen[bytes]:
        with self.output_file.open("ab") as output:
            self.process = subprocess.Popen(
                [*penstock_command(), "serve", str(self.file)], stdout=output, stderr=subprocess.STDOUT
            )
        return self.process

    def start(self) -> None:
        count = self.output().count("penstock ready")
        self.launch()
        wait_until(lambda: self.output().count("penstock ready") > count, f"{self.file} is ready", seconds=60)

    def output(self) -> str:
        return self.output_file.read_text() if self.output_file.exists() else ""

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._controller_port = free_port()
        self.ports = {2: free_port(), 3: free_port()}
        self.controller = NodeProcess(
            folder / "controller",
            f"""node.id=1
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{self._controller_port}
{self._quorum}""",
        )
        self.brokers = {node_id: self.broker(folder / f"broker-{node_id}", node_id) for node_id in (2, 3)}

    @property
    def _quorum(self) -> str:
        return f"""controller.quorum.bootstrap.servers=127.0.0.1:{self._controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"""

    def broker(self, folder: Path, node_id: int) -> NodeProcess:
        port = self.ports.get(node_id) or free_port()
        return NodeProcess(
            folder,
            f"""node.id={node_id}
process.roles=broker
listeners=INTERNAL://127.0.0.1:{port}
advertised.listeners=INTERNAL://localhost:{port}
inter.broker.listener.name=INTERNAL
{self._quorum}""",
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self) -> None:
        self.controller.format("--standalone")
        for node in self.brokers.values():
            node.format()
        for node in [self.controller, *self.brokers.values()]:
            node.launch()
        for node in [self.controller, *self.brokers.values()]:
            wait_until(
                lambda node=node: "penstock ready" in node.output(), f"{node.file} is ready", seconds=60
            )

    def close(self) -> None:
        for node in [*self.brokers.values(), self.controller]:
            if node.process is not None and node.process.poll() is None:
                node.end(signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def produce(cluster: Cluster, topic: str, values: range) -> None:
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(topic, str(value), partition=value % 4, callback=delivered)
    assert producer.flush(60) == 0
    assert failed == []


def consume(cluster: Cluster, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    values: list[int] = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None, f"only {len(values)} of {count} records"
        if message.error() is None:
            values.append(int(message.value() or b""))
    consumer.close()
    return sorted(values)


def create(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 2, "both brokers are there", seconds=60)
    admin.create_topics([NewTopic(topic, 4, 2)])[topic].result(30)


def await_in_sync(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def is_in_sync() -> bool:
        found = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return len(found) == 4 and all(len(partition.isrs) == 2 for partition in found.values())

    wait_until(is_in_sync, f"the replicas of {topic} are in sync")


def test_brokers_and_a_controller_with_a_dynamic_quorum_survive_kills_and_stops(cluster: Cluster) -> None:
    cluster.start()
    create(cluster, "t")
    produce(cluster, "t", range(100))

    cluster.brokers[3].end(signal.SIGKILL)
    produce(cluster, "t", range(100, 200))
    cluster.brokers[3].start()
    await_in_sync(cluster, "t")  # otherwise, stopping broker 2 would leave partitions without a leader
    assert cluster.brokers[2].end(signal.SIGTERM) == 0
    produce(cluster, "t", range(200, 300))
    cluster.controller.end(signal.SIGKILL)
    cluster.controller.start()
    cluster.brokers[2].start()
    produce(cluster, "t", range(300, 400))

    assert consume(cluster, "t", 400) == list(range(400))
    assert not any("Traceback" in node.output() for node in [cluster.controller, *cluster.brokers.values()])


def test_a_broker_of_another_cluster_ends_with_one_clear_line(cluster: Cluster, tmp_path: Path) -> None:
    cluster.controller.format("--standalone")
    cluster.controller.start()
    stranger = cluster.broker(tmp_path / "stranger", 9)
    stranger.format(cluster_id=OTHER_CLUSTER_ID)

    process = stranger.launch()

    assert process.wait(60) == 1
    last = stranger.output().splitlines()[-1]
    assert OTHER_CLUSTER_ID in last
    assert "another cluster" in last
    assert "Traceback" not in stranger.output()


def test_a_second_sigterm_ends_a_node_that_waits_for_its_controller(cluster: Cluster) -> None:
    cluster.start()
    cluster.controller.end(signal.SIGKILL)
    broker = cluster.brokers[2]
    assert broker.process is not None

    broker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "received SIGTERM" in broker.output(), "it stops")
    broker.process.send_signal(signal.SIGTERM)

    assert broker.process.wait(30) in (0, 128 + signal.SIGTERM)
