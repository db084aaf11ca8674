"""Three nodes with a dynamic quorum, and a fourth that may join while they run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.brokers import free_port
from harness.clusters import SETTINGS, ProcessCluster
from harness.penstock_cluster import PenstockNode

DIRECTORY_IDS = {1: "3Db5QLSqSZieL3rJBUUegA", 2: "L3rJBUUegASZieL3Db5QSg", 3: "B5QLSqSZieL3rJBUUegDbQ"}
FOURTH = 4


class DynamicCluster(ProcessCluster[PenstockNode]):
    """The voters are in the metadata log. `fourth` is not started, and is no voter yet."""

    def __init__(
        self,
        folder: Path,
        *,
        fourth_roles: str = "broker,controller",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.paused = set()
        self.nodes = {}
        self.controller_ports = {node_id: free_port() for node_id in (*self.node_ids, FOURTH)}
        self.controllers = ",".join(f"127.0.0.1:{self.controller_ports[each]}" for each in self.node_ids)
        voters = ",".join(
            f"{node_id}@127.0.0.1:{self.controller_ports[node_id]}:{directory_id}"
            for node_id, directory_id in DIRECTORY_IDS.items()
        )
        self._shared = {
            **SETTINGS,
            "controller.quorum.bootstrap.servers": self.controllers,
            "controller.listener.names": "CONTROLLER",
            **(settings or {}),
        }
        for node_id in self.node_ids:
            node = self._make(folder, node_id, "broker,controller")
            node.format_options = ["--initial-controllers", voters]
            self.nodes[node_id] = node
        self.fourth = self._make(folder, FOURTH, fourth_roles)
        self.fourth.format_options = ["--no-initial-controllers"]
        self.fourth_properties = folder / "node-4.properties"
        """The settings of the fourth node, as Kafka's tool wants them."""
        lines = [f"{key}={value}\n" for key, value in self.fourth.settings.items()]
        self.fourth_properties.write_text("".join(lines))

    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> PenstockNode:
        return PenstockNode(folder, settings=settings, port=port)

    def join(self) -> None:
        """Start the fourth node, as a member of this cluster."""
        self.nodes[FOURTH] = self.fourth
        self.restart(FOURTH)

    def leave(self, node_id: int) -> None:
        """Stop a node for good."""
        self.nodes.pop(node_id).stop()

    def close(self) -> None:
        super().close()
        if self.fourth.is_alive():
            self.fourth.kill()

    def check_outputs(self) -> None:
        """Fail if a node reported an internal error."""
        for node in {*self.nodes.values(), self.fourth}:
            node.check_output()

    def _make(self, folder: Path, node_id: int, roles: str) -> PenstockNode:
        controller_port = self.controller_ports[node_id]
        port = free_port() if "broker" in roles else controller_port
        listeners = [f"CONTROLLER://127.0.0.1:{controller_port}"]
        if "broker" in roles:
            listeners.insert(0, f"PLAINTEXT://127.0.0.1:{port}")
        own = {
            "process.roles": roles,
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "log.dirs": str(folder / f"node-{node_id}" / "data"),
        }
        return self.make_node(folder / f"node-{node_id}", self._shared | own, port)
