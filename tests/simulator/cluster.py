"""Several nodes in one thread, from one seed.

    cluster = SimulatedCluster(seed=7, nodes=3)
    cluster.run(scenario)           # an async function of the cluster

Each node has its own machine: disk, clock, worker threads and address (10.0.0.N, port 9092 for clients and brokers,
9093 for controllers). They share the event loop, the network and the trace. `network.links` holds the faults of links.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from penstock.client.connection import ClientConnection
from penstock.protocol.types import random_uuid, uuid_text
from penstock.storage.meta_properties import MetaProperties, write_meta_properties
from simulator.network import CLIENT_HOST
from simulator.node import SimulatedNode
from simulator.world import World

BROKER_PORT, CONTROLLER_PORT = 9092, 9093
COMBINED = "broker,controller"
LOG_DIR = "/data"
SETTLE_S = 0.5  # for work in progress, besides calls that a slow disk delays

FAST_FAILOVER = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "replica.socket.timeout.ms": "1500",
    "controller.socket.timeout.ms": "1500",
}
"""Short timeouts, so that a seed sees many elections."""


def host_of(node_id: int) -> str:
    return f"10.0.0.{node_id}"


class SimulatedCluster(World):
    """Nodes by id. Without `roles`, all of them are brokers and controllers."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        roles: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(seed)
        self.roles = dict(roles or dict.fromkeys(range(1, nodes + 1), COMBINED))
        self.settings = {**FAST_FAILOVER, **(settings or {})}
        self.cluster_id = uuid_text(random_uuid(self.generator("cluster id")))
        self.voters = [node_id for node_id, role in self.roles.items() if "controller" in role]
        self.nodes: dict[int, SimulatedNode] = {}
        for node_id in self.roles:
            self.add_node(node_id, self.roles[node_id])

    @property
    def all_nodes(self) -> Sequence[SimulatedNode]:
        return list(self.nodes.values())

    @property
    def up(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_up]

    @property
    def broker_ids(self) -> list[int]:
        return [node_id for node_id, role in self.roles.items() if "broker" in role]

    @property
    def controller_ids(self) -> list[int]:
        return [node_id for node_id, role in self.roles.items() if "controller" in role]

    @property
    def settle_s(self) -> float:
        """How long nodes may need to finish work in progress, even on a busy disk."""
        return SETTLE_S + 2 * max(node.stall_s_max for node in self.nodes.values())

    # Nodes

    def add_node(
        self, node_id: int, role: str = "broker", *, settings: Mapping[str, str] | None = None
    ) -> SimulatedNode:
        """A new machine with a formatted disk. It is not started."""
        self.roles[node_id] = role
        node = self.nodes[node_id] = SimulatedNode(
            f"node {node_id}",
            host=host_of(node_id),
            properties={**self._properties(node_id, role), **self.settings, **(settings or {})},
            loop=self.loop,
            network=self.network,
            trace=self.trace,
            generator=partial(self._generator_of, node_id),
            failures=self.failures,
        )
        node.is_silent_without_power = True
        self.format(node_id)
        return node

    def remove_node(self, node_id: int) -> None:
        """The machine of a stopped node is taken away."""
        assert not self.nodes[node_id].is_up, "it still runs"
        del self.nodes[node_id], self.roles[node_id]

    def format(self, node_id: int) -> None:
        """Write what `kafka-storage.sh format` writes for a quorum with static voters."""
        node = self.nodes[node_id]
        rng = self._generator_of(node_id, "directory ids")
        directories = node.properties["log.dirs"].split(",")
        if (metadata := node.properties.get("metadata.log.dir")) is not None:
            directories.append(metadata)
        for directory in directories:
            node.disk.make_directory(directory)
            identity = MetaProperties(self.cluster_id, node_id, random_uuid(rng))
            write_meta_properties(node.disk, directory, identity)
        node.disk.sync_directory("/")

    async def start(self, *node_ids: int) -> None:
        """Start these nodes at the same time, or all that are down: each may need the others to become ready."""
        chosen = node_ids or [node_id for node_id, node in self.nodes.items() if not node.is_up]
        await asyncio.gather(*[self.nodes[node_id].start() for node_id in chosen])

    async def stop(self, *node_ids: int) -> None:
        """Stop these nodes, or all, one after the other."""
        for node_id in node_ids or self.up:
            await self.nodes[node_id].stop()

    # Links

    def partition(self, *groups: Collection[int], clients_with: Collection[int] | None = None) -> None:
        """Cut all links between the groups. Clients reach every node, or only `clients_with`."""
        hosts = [{host_of(node_id) for node_id in group} for group in groups]
        self.trace.note(f"network partition: {' | '.join(str(sorted(group)) for group in groups)}")
        self.network.links.partition(hosts)
        if clients_with is not None:
            others = {host_of(node_id) for node_id in self.nodes if node_id not in clients_with}
            self.network.links.partition([{CLIENT_HOST}, others])

    def cut(self, source: int, destination: int) -> None:
        """Cut one direction of one link."""
        self.trace.note(f"the link from node {source} to node {destination} is cut")
        self.network.links.cut(host_of(source), host_of(destination))

    def heal(self) -> None:
        self.trace.note("the network is healed")
        self.network.links.heal()

    async def connect(self, node_id: int, client_id: str = "simulated") -> ClientConnection:
        return await ClientConnection.open(self.network, host_of(node_id), BROKER_PORT, client_id=client_id)

    # Internals

    def _properties(self, node_id: int, role: str) -> dict[str, str]:
        listeners = []
        if "broker" in role:
            listeners.append(f"PLAINTEXT://{host_of(node_id)}:{BROKER_PORT}")
        if "controller" in role:
            listeners.append(f"CONTROLLER://{host_of(node_id)}:{CONTROLLER_PORT}")
        voters = [f"{voter}@{host_of(voter)}:{CONTROLLER_PORT}" for voter in self.voters]
        return {
            "node.id": str(node_id),
            "process.roles": role,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": LOG_DIR,
        }

    def _generator_of(self, node_id: int, concern: str) -> random.Random:
        return self.generator(f"node {node_id}/{concern}")
