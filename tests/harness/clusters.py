"""Three nodes as processes, each broker and controller. A test may stop, kill, pause and restart any of them.

One of the three nodes may be down at a time; with two down there is no controller.
"""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from harness.brokers import LOOPBACK, Broker, free_port
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

METADATA_VERSION = 12
QUORUM_VERSION = 2

# A dead node is noticed within seconds, and everything that a client needs survives any one node.
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

NodeT = TypeVar("NodeT", bound=Broker)


class ProcessCluster(ABC, Generic[NodeT]):
    """A cluster of processes. A subclass makes its nodes."""

    node_ids: ClassVar[tuple[int, ...]] = (1, 2, 3)

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        controllers = {node_id: free_port() for node_id in self.node_ids}
        addresses = {node_id: f"{self.host(node_id)}:{port}" for node_id, port in controllers.items()}
        voters = ",".join(f"{node_id}@{address}" for node_id, address in addresses.items())
        self.controllers = ",".join(addresses.values())
        """The addresses of the controllers, which clients do not usually see."""
        self.paused: set[int] = set()
        self.nodes: dict[int, NodeT] = {}
        for node_id, address in addresses.items():
            port = free_port()
            own = {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "broker.rack": f"rack-{node_id}",
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{self.host(node_id)}:{port},CONTROLLER://{address}",
            }
            node = self.make_node(folder / f"node-{node_id}", SETTINGS | own | dict(settings or {}), port)
            node.host = self.host(node_id)
            self.nodes[node_id] = node

    @abstractmethod
    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> NodeT: ...

    def host(self, node_id: int) -> str:
        """The address of a node."""
        return LOOPBACK

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, separated by commas."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        """Return when every node knows all others."""
        with ThreadPoolExecutor() as pool:  # a node answers only when there is a quorum
            list(pool.map(lambda node: node.start(), self.nodes.values()))
        self.await_alive(*self.nodes)

    def kill(self, node_id: int) -> None:
        """SIGKILL. Returns when the process has exited, before the others notice."""
        self.nodes[node_id].kill()

    def stop(self, node_id: int) -> None:
        """SIGTERM: the node hands over its partitions first."""
        self.nodes[node_id].stop()

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the node keeps its connections and does nothing."""
        self.nodes[node_id].send_signal(signal.SIGSTOP)
        self.paused.add(node_id)

    def resume(self, node_id: int) -> None:
        self.paused.discard(node_id)
        self.nodes[node_id].send_signal(signal.SIGCONT)

    def restart(self, node_id: int) -> None:
        """Start a stopped node; return when the others know that it is back."""
        self.nodes[node_id].start()
        self.await_alive(node_id)

    def heal(self) -> None:
        """Resume all nodes that are paused, and start all that are down."""
        for node_id in sorted(self.paused):
            self.resume(node_id)
        for node_id, node in self.nodes.items():
            if not node.is_alive():
                node.process = None
                self.restart(node_id)

    def close(self) -> None:
        for node in self.nodes.values():
            if node.is_alive():
                node.kill()  # a clean stop takes seconds, and this data is not read again

    # -- questions of tests

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the current leader; waits until there is one that runs."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for each in self.partitions(topic):
                if each.partition_index == partition and self._serves(each.leader_id):
                    return each.leader_id
            time.sleep(0.02)
        raise AssertionError(f"{topic}-{partition} has no leader")

    def controller(self) -> int:
        """The id of the active controller; waits until there is one that runs."""
        found: list[int] = []

        def is_elected() -> bool:
            leader = self._quorum_leader()
            if self._serves(leader):
                found.append(leader)
            return bool(found)

        wait_until(is_elected, "there is an active controller", seconds=60)
        return found[0]

    def await_alive(self, *node_ids: int) -> None:
        """Wait until every running node lists these brokers."""
        for node_id, node in self.nodes.items():
            if self._serves(node_id):
                wait_until(
                    lambda node=node: set(node_ids) <= self._brokers(node),
                    f"{node.bootstrap} knows the brokers {node_ids}",
                    seconds=60,
                )

    def await_in_sync(self, topic: str) -> None:
        """Wait until every running node knows the topic and sees all its running replicas in sync."""

        def is_in_sync() -> bool:
            seen = self._seen(topic)
            return all(seen) and all(
                set(filter(self._serves, each.replica_nodes)) <= set(each.isr_nodes)
                for partitions in seen
                for each in partitions
            )

        wait_until(is_in_sync, f"the replicas of {topic} are in sync", seconds=60)

    def await_known(self, topic: str) -> None:
        """Wait until every running node knows the topic."""
        wait_until(lambda: all(self._seen(topic)), f"all nodes know {topic}")

    def _seen(self, topic: str) -> list[list[MetadataResponsePartition]]:
        """The partitions of the topic, as each running node sees them."""
        serving = [node for node_id, node in self.nodes.items() if self._serves(node_id)]
        assert serving, "no node is running"
        return [self._metadata(topic, node=node).topics[0].partitions for node in serving]

    def partitions(self, topic: str) -> list[MetadataResponsePartition]:
        (found,) = self._metadata(topic).topics
        return found.partitions

    def _serves(self, node_id: int) -> bool:
        return node_id in self.nodes and node_id not in self.paused and self.nodes[node_id].is_alive()

    def _any_node(self) -> NodeT:
        return next(node for node_id, node in self.nodes.items() if self._serves(node_id))

    def _brokers(self, node: NodeT) -> set[int]:
        return {broker.node_id for broker in self._metadata(node=node).brokers}

    def _quorum_leader(self) -> int:
        partitions = [DescribeQuorumRequestPartition(partition_index=0)]
        topics = [DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=partitions)]
        node = self._any_node()
        with WireConnection(node.port, host=node.host) as connection:
            response: DescribeQuorumResponse = ask(
                connection, DescribeQuorumRequest(topics=topics), QUORUM_VERSION
            )
        found = [each.leader_id for topic in response.topics for each in topic.partitions]
        return found[0] if found else -1

    def _metadata(self, *topics: str, node: NodeT | None = None) -> MetadataResponse:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        node = node or self._any_node()
        with WireConnection(node.port, host=node.host) as connection:
            response: MetadataResponse = ask(connection, request, METADATA_VERSION)
            return response
