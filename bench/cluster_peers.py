"""Clusters under measurement: three nodes on this machine, each broker and controller, of Penstock or Apache Kafka."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.peers import CLUSTER_ID, ApacheKafka, Peer, Penstock, free_port, plain_environment
from bench.wire import Wire
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from penstock.protocol.messages.metadata import MetadataResponsePartition

WAIT_S = 300.0
REPLICAS = 3

# The same for both. A dead node is noticed within two seconds: Kafka's nine would hide the rest of a fail-over.
CLUSTER_SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class ClusterPeer(Peer):
    """A cluster of `nodes`, numbered from 1. As a `Peer`, its port is that of node 1, and its memory and CPU time are
    those of all nodes."""

    kind: type[Penstock] | type[ApacheKafka]
    count = 3

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder or Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-cluster-")))
        controllers = {node_id: free_port() for node_id in range(1, self.count + 1)}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in controllers.items())
        self.nodes: dict[int, Peer] = {}
        for node_id, controller_port in controllers.items():
            node = self._node(node_id, controller_port, voters)
            self.nodes[node_id] = node
        self.port = self.nodes[1].port

    def command(self) -> list[str]:
        raise AssertionError("each node has its own command")

    def _node(self, node_id: int, controller_port: int, voters: str) -> Peer:
        folder = self.folder / f"node-{node_id}"
        folder.mkdir()
        settings = {
            **CLUSTER_SETTINGS,
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
        }
        node = self.kind(folder, settings=settings)
        addresses = f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{controller_port}"
        node.settings["listeners"] = addresses
        return node

    def start(self) -> float:
        """Return the seconds until every node knows all others."""
        for node in self.nodes.values():
            node.prepare()
        began = time.perf_counter()
        with ThreadPoolExecutor() as pool:  # a node answers only when there is a quorum
            list(pool.map(lambda node: node.start(), self.nodes.values()))
        self.until(self._is_complete, "all nodes know one another")
        return time.perf_counter() - began

    def stop(self) -> None:
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()  # a clean stop takes seconds, and this data is not read again

    def wipe(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory_mb(self) -> float:
        return sum(node.memory_mb() for node in self.alive().values())

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self.alive().values())

    def alive(self) -> dict[int, Peer]:
        return {node_id: node for node_id, node in self.nodes.items() if node.process is not None}

    def restart(self, node_id: int) -> None:
        """Start a node that was killed; return when all running nodes know it."""
        self.nodes[node_id].start()
        self.until(self._is_complete, f"node {node_id} is back")

    # -- questions

    def any_port(self) -> int:
        return next(iter(self.alive().values())).port

    def partition(self, topic: str, index: int = 0, *, port: int | None = None) -> MetadataResponsePartition:
        """Raises LookupError if the node does not know the partition."""
        with Wire(port or self.any_port()) as wire:
            (found,) = wire.metadata(topic).topics
        for each in found.partitions:
            if each.partition_index == index:
                return each  # type: ignore[no-any-return]
        raise LookupError(f"{topic}-{index}")

    def leader(self, topic: str, *, replicas: int = REPLICAS) -> int:
        """The leader of partition 0, when it has one that runs and all replicas are in sync."""
        found: list[int] = []

        def is_led() -> bool:
            try:
                partition = self.partition(topic)
            except LookupError:
                return False
            alive = self.alive()
            if partition.leader_id in alive and len(partition.isr_nodes) >= min(len(alive), replicas):
                found.append(partition.leader_id)
            return bool(found)

        self.until(is_led, f"{topic} is led and in sync")
        return found[0]

    def controller(self) -> int:
        """The leader of the quorum."""
        partitions = [DescribeQuorumRequestPartition(partition_index=0)]
        topics = [DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=partitions)]
        with Wire(self.any_port()) as wire:
            response = wire.ask(DescribeQuorumRequest(topics=topics), ApiKey.DESCRIBE_QUORUM)
        partition = response.topics[0].partitions[0]
        if partition.error_code != ErrorCode.NONE:
            raise RuntimeError(f"the quorum cannot be described: {partition.error_code!r}")
        return int(partition.leader_id)

    def until(self, is_so: Callable[[], bool], what: str, *, pause_s: float = 0.01) -> None:
        limit = time.perf_counter() + WAIT_S
        while True:
            try:
                if is_so():
                    return
            except (ConnectionError, TimeoutError):
                pass
            if time.perf_counter() > limit:
                raise TimeoutError(f"{self.name}: not within {WAIT_S:.0f} s: {what}")
            time.sleep(pause_s)

    def _is_complete(self) -> bool:
        alive = self.alive()
        for node in alive.values():
            with Wire(node.port) as wire:
                if len(wire.metadata().brokers) < len(alive):
                    return False
        return True


class PenstockCluster(ClusterPeer):
    name = "penstock"
    kind = Penstock

    def start(self) -> float:
        for node in self.nodes.values():
            if not (node.folder / "data" / "meta.properties").exists():
                command = [*node.command(), "--cluster-id", CLUSTER_ID]
                command[1:2] = ["storage", "format"]
                subprocess.run(command, check=True, capture_output=True, env=plain_environment())
        return super().start()


class KafkaCluster(ClusterPeer):
    name = "kafka"
    kind = ApacheKafka


class TwoPenstockNodes(PenstockCluster):
    count = 2


class TwoKafkaNodes(KafkaCluster):
    count = 2
