"""Three nodes of Apache Kafka, each broker and controller, of which a test may kill and restart any.

For what a client does when a leader dies: Penstock's own nodes cannot take over from one another yet, and Kafka is
the measure anyhow. One node of three may be down at a time; with two down there is no controller.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.brokers import KafkaBroker, free_port
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NODE_IDS = (1, 2, 3)
METADATA_VERSION = 12

# A dead node is noticed within seconds, and everything that a client needs outlives any one node.
SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
}


class KafkaNode(KafkaBroker):
    def command(self) -> Sequence[str]:
        # Less memory and no optimizing compiler: three of them share a small machine with the test.
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *super().command()[3:]]


class KafkaCluster:
    def __init__(
        self, folder: Path, *, settings: Mapping[str, str] | None = None, libs: Path | None = None
    ) -> None:
        controllers = {node_id: free_port() for node_id in NODE_IDS}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in controllers.items())
        self.controllers = ",".join(f"127.0.0.1:{port}" for port in controllers.values())
        """The addresses of the controllers, which clients do not usually see."""
        self.nodes: dict[int, KafkaNode] = {}
        for node_id, controller_port in controllers.items():
            port = free_port()
            own = {
                "node.id": str(node_id),
                "broker.rack": f"rack-{node_id}",
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            }
            self.nodes[node_id] = KafkaNode(
                folder / f"node-{node_id}",
                settings=SETTINGS | own | dict(settings or {}),
                port=port,
                libs=libs,
            )

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, with commas between them."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        """Return when every node knows of every other."""
        with ThreadPoolExecutor() as pool:  # a node answers only when there is a quorum
            list(pool.map(lambda node: node.start(), self.nodes.values()))
        self.await_alive(*self.nodes)

    def kill(self, node_id: int) -> None:
        """SIGKILL; returns when the process is gone, before the others have noticed."""
        self.nodes[node_id].kill()

    def stop(self, node_id: int) -> None:
        """SIGTERM: the node hands over what it leads first."""
        self.nodes[node_id].stop()

    def restart(self, node_id: int) -> None:
        """Start a node that is down, and return when the others know that it is back."""
        self.nodes[node_id].start()
        self.await_alive(node_id)

    def heal(self) -> None:
        """Start whatever is down."""
        for node_id, node in self.nodes.items():
            if not node.is_alive():
                node.process = None
                self.restart(node_id)

    def close(self) -> None:
        for node in self.nodes.values():
            if node.is_alive():
                node.kill()  # a clean end takes seconds, and nobody reads this data again

    # -- what a test asks the cluster

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the node that leads now; waits until there is one that lives."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            (found,) = self._metadata(topic).topics
            for each in found.partitions:
                if each.partition_index == partition and self._is_alive(each.leader_id):
                    return each.leader_id
            time.sleep(0.02)
        raise AssertionError(f"nobody leads {topic}-{partition}")

    def await_alive(self, *node_ids: int) -> None:
        """Wait until every living node counts these among the brokers."""
        for node in self.nodes.values():
            if node.is_alive():
                wait_until(
                    lambda port=node.port: set(node_ids) <= self._brokers(port),
                    f"{node_ids} are among the brokers that {node.bootstrap} knows",
                    seconds=60,
                )

    def await_in_sync(self, topic: str) -> None:
        """Wait until every living replica of the topic is in sync."""

        def is_in_sync() -> bool:
            (found,) = self._metadata(topic).topics
            return all(
                set(filter(self._is_alive, each.replica_nodes)) <= set(each.isr_nodes)
                for each in found.partitions
            )

        wait_until(is_in_sync, f"the replicas of {topic} are in sync", seconds=60)

    def _is_alive(self, node_id: int) -> bool:
        return node_id in self.nodes and self.nodes[node_id].is_alive()

    def _brokers(self, port: int) -> set[int]:
        return {broker.node_id for broker in self._metadata(port=port).brokers}

    def _metadata(self, *topics: str, port: int | None = None) -> MetadataResponse:
        port = port or next(node.port for node in self.nodes.values() if node.is_alive())
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        with WireConnection(port) as connection:
            response: MetadataResponse = ask(connection, request, METADATA_VERSION)
            return response
