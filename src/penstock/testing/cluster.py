"""A real cluster for a test: one process per node on this machine, to kill, pause and cut off.

    with Cluster(nodes=3) as cluster:
        producer = AnyKafkaClient(cluster.bootstrap_servers)
        cluster.kill(2)                      # as kill -9 does; the other two go on
        cluster.start(2)
        cluster.partition({1}, {2, 3})       # node 1 cannot reach the others, clients reach all of them
        cluster.heal()

Nodes are numbered from 1. The first three are brokers and controllers, further ones only brokers. A majority of the
controllers must run and reach one another, or nothing can be changed and no new leader is elected. A dead node is
noticed within about three seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock import errors
from penstock.node.local_layout import CONTROLLER_PORT_OFFSET, LocalLayout, LocalNode, plan, write
from penstock.testing.broker import clean_up
from penstock.testing.clients import Clients
from penstock.testing.faults import Faults
from penstock.testing.node_process import BrokerFailed, NodeProcess, free_port, is_free, text_of

if TYPE_CHECKING:
    from penstock import Admin

WAIT_SECONDS = 60.0
POLL_SECONDS = 0.02
NO_LEADER = -1
PORT_TRIES = 20

# Everything survives the loss of one node, and that loss is noticed soon.
TEST_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "5000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
}


class Cluster(Clients):
    def __init__(
        self,
        nodes: int = 3,
        *,
        settings: Mapping[str, object] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Start a cluster and wait until all nodes serve. `settings` apply to every node. Topics have three replicas by
        default, and two must be in sync for acks=all. Without a `folder`, its data is deleted with it."""
        super().__init__()
        self.settings = {
            **TEST_SETTINGS,
            **{name: text_of(value) for name, value in (settings or {}).items()},
        }
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._running: list[subprocess.Popen[str]] = []
        own_folder = self.folder if folder is None else None
        self._finalizer = weakref.finalize(self, clean_up, self._running, own_folder)
        self._layout = self._plan(nodes)
        self._nodes: dict[int, _ClusterNode] = {}
        self._admin: Admin | None = None
        self._cut: dict[int, frozenset[int]] = {}
        """For each node, the nodes that it cannot reach."""
        try:
            write(self._layout)
            for node in self._layout.nodes:
                self._nodes[node.node_id] = _ClusterNode(node, self._running)
            for each in self._nodes.values():
                each.launch()
            for each in self._nodes.values():
                each.wait_until_ready()
        except BaseException:
            self._finalizer()
            raise

    # -- for clients

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: the addresses of all nodes, separated by commas."""
        return self._layout.bootstrap_servers

    @property
    def bootstrap(self) -> str:
        return self.bootstrap_servers

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self._nodes)

    def port(self, node_id: int) -> int:
        """The port of one node for clients."""
        return self._node(node_id).node.port

    def faults(self, node_id: int) -> Faults:
        """Faults of one node: `cluster.faults(2).fail("Produce", "NOT_LEADER")`."""
        return self._node(node_id).faults

    # -- nodes

    def is_running(self, node_id: int) -> bool:
        return self._node(node_id).is_running

    def process_id(self, node_id: int) -> int:
        return self._node(node_id).running().pid

    def kill(self, node_id: int) -> None:
        """Kill a node as `kill -9` does. Returns before the others notice."""
        self._node(node_id).end(signal.SIGKILL)

    def stop(self, node_id: int) -> None:
        """Stop a node cleanly, as SIGTERM does: its partitions get other leaders first."""
        self._node(node_id).end(signal.SIGTERM)

    def start(self, node_id: int) -> None:
        """Start a node after `kill` or `stop`, on the same data and port, and wait until it serves. A node that is cut
        off cannot serve yet: then `heal` waits for it."""
        if not self._finalizer.alive:
            raise BrokerFailed("the cluster was closed; create another one")
        node = self._node(node_id)
        node.launch(cut=self._ports(self._cut.get(node_id, frozenset())))
        if not self._cut.get(node_id):
            node.wait_until_ready()

    def restart(self, node_id: int) -> None:
        self.stop(node_id)
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """Freeze a node like a hanging machine, until `resume`: connections stay open, but nothing is answered."""
        self._node(node_id).send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._node(node_id).send_signal(signal.SIGCONT)

    # -- the network between nodes

    def partition(self, *groups: Collection[int]) -> None:
        """Cut the network between the groups: `partition({1}, {2, 3})`. Nodes that no group names form one more group.
        Clients still reach every node. No node may be paused."""
        named = [frozenset(group) for group in groups]
        for node_id in {each for group in named for each in group}:
            self._node(node_id)
        rest = frozenset(self._nodes) - frozenset().union(*named)
        everyone = [*named, *([rest] if rest else [])]
        if sum(map(len, everyone)) != len(self._nodes):
            raise ValueError("a node can be in only one group")
        for group in everyone:
            for node_id in group:
                self._cut[node_id] = frozenset(self._nodes) - group
        self._apply_cuts()

    def heal(self) -> None:
        """Connect all nodes again. Nodes that were killed or stopped stay down."""
        self._cut.clear()
        self._apply_cuts()
        for node in self._nodes.values():
            if node.is_running and not node.is_ready:
                node.wait_until_ready()

    # -- questions

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the partition's leader; waits until it has one that runs."""
        found: list[int] = []

        def has_leader() -> bool:
            leaders = self._partition_states(topic)
            if partition in leaders and self._is_alive(leaders[partition][0]):
                found.append(leaders[partition][0])
            return bool(found)

        self._wait(has_leader, f"{topic} exists, and its partition {partition} has a leader")
        return found[0]

    def controller(self) -> int:
        """The id of the active controller."""
        return self._shared_admin().describe_quorum().leader

    def wait_until_in_sync(self, *topics: str) -> None:
        """Wait until every running replica of these topics is in sync."""

        def is_in_sync() -> bool:
            states = [self._partition_states(topic) for topic in topics]
            return all(states) and all(
                {each for each in replicas if self._is_alive(each)} <= set(isr)
                for partitions in states
                for _, replicas, isr in partitions.values()
            )

        self._wait(is_in_sync, f"{', '.join(topics)} exist, and their replicas are in sync")

    @property
    def log_files(self) -> list[Path]:
        return [node.log_file for node in self._nodes.values()]

    def log(self, node_id: int, *, last_bytes: int = 8192) -> str:
        """The end of a node's log."""
        return self._node(node_id).log(last_bytes=last_bytes)

    # -- the end

    def close(self) -> None:
        """Stop all nodes, close the clients that the cluster made, and delete its data unless a folder was given."""
        self.close_clients()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._finalizer.alive:
            return f"<Cluster {self.bootstrap_servers}, closed>"
        running = [str(node_id) for node_id, node in self._nodes.items() if node.is_running]
        return f"<Cluster {self.bootstrap_servers}, running: {', '.join(running) or 'none'}, data in {self.folder}>"

    def _plan(self, count: int) -> LocalLayout:
        return plan(self.folder, count=count, port=free_ports(count), settings=self.settings)

    def _node(self, node_id: int) -> _ClusterNode:
        if node_id not in self._nodes:
            raise ValueError(f"there is no node {node_id}; the nodes are {', '.join(map(str, self._nodes))}")
        return self._nodes[node_id]

    def _is_alive(self, node_id: int) -> bool:
        return node_id in self._nodes and self._nodes[node_id].is_running

    def _ports(self, node_ids: Collection[int]) -> list[int]:
        return [port for node_id in sorted(node_ids) for port in self._nodes[node_id].node.ports]

    def _apply_cuts(self) -> None:
        for node_id, node in self._nodes.items():
            if node.is_running:
                node.command({"do": "cut", "ports": self._ports(self._cut.get(node_id, frozenset()))})

    def _partition_states(self, topic: str) -> dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """Leader, replicas and in-sync replicas of each partition; empty if the node that was asked does not know the
        topic yet."""
        try:
            described = self._shared_admin().describe_topic(topic)
        except errors.UnknownTopicOrPartition:
            return {}
        return {
            each.index: (NO_LEADER if each.leader is None else each.leader, each.replicas, each.in_sync)
            for each in described.partitions
        }

    def _shared_admin(self) -> Admin:
        if self._admin is None:
            self._admin = self.admin()
        return self._admin

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {WAIT_SECONDS:.0f} s: {what}")
            time.sleep(POLL_SECONDS)


class _ClusterNode(NodeProcess):
    def __init__(self, node: LocalNode, running: list[subprocess.Popen[str]]) -> None:
        super().__init__(
            f"node {node.node_id}", node.directory.with_name(f"node-{node.node_id}.log"), running
        )
        self.node = node
        self.faults = Faults(self.command)

    def launch(self, settings: Mapping[str, str] | None = None, *, cut: Collection[int] = ()) -> None:
        super().launch(self.node.settings if settings is None else settings, cut=cut)


def free_ports(count: int) -> int:
    """The first of the consecutive ports that a cluster of `count` nodes needs."""
    for _ in range(PORT_TRIES):
        first = free_port()
        offsets = (0, CONTROLLER_PORT_OFFSET)
        if all(is_free(first + offset + each) for offset in offsets for each in range(count)):
            return first
    raise BrokerFailed(f"no {count} consecutive ports are free on this machine")
