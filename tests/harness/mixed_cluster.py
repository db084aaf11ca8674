"""Clusters of Penstock and Apache Kafka nodes together: each is the judge of the other's protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from harness.brokers import Broker, free_port
from harness.clusters import SETTINGS, ProcessCluster
from harness.kafka_cluster import KafkaNode
from harness.penstock_cluster import PenstockNode

CONTROLLER_ID = 100

Kind = Literal["penstock", "kafka"]


def make_node(kind: Kind, folder: Path, settings: Mapping[str, str], port: int) -> Broker:
    node = PenstockNode if kind == "penstock" else KafkaNode
    return node(folder, settings=settings, port=port)


class MixedCluster(ProcessCluster[Any]):
    """One controller of one kind, and brokers of both kinds."""

    def __init__(
        self,
        folder: Path,
        *,
        controller: Kind,
        brokers: Sequence[Kind],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        port = free_port()
        self.paused = set()
        self.controllers = f"127.0.0.1:{port}"
        common = {
            **SETTINGS,
            "default.replication.factor": str(len(brokers)),
            "offsets.topic.replication.factor": str(len(brokers)),
            "transaction.state.log.replication.factor": str(len(brokers)),
            "transaction.state.log.min.isr": "1",
            "min.insync.replicas": "1",
            "controller.quorum.voters": f"{CONTROLLER_ID}@{self.controllers}",
            "controller.listener.names": "CONTROLLER",
            **(settings or {}),
        }
        own = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://{self.controllers}",
        }
        self.controller_node = make_node(controller, folder / "controller", common | own, port)
        self.nodes = {}
        for node_id, kind in enumerate(brokers, start=1):
            port = free_port()
            own = {
                "process.roles": "broker",
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            }
            self.nodes[node_id] = make_node(kind, folder / f"{kind}-{node_id}", common | own, port)

    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> Broker:
        raise NotImplementedError

    def start(self) -> None:
        self.controller_node.start()
        super().start()

    def close(self) -> None:
        super().close()
        if self.controller_node.is_alive():
            self.controller_node.kill()

    def check_outputs(self) -> None:
        """Fail if a node reported an internal error."""
        for node in (self.controller_node, *self.nodes.values()):
            node.check_output()


class MixedQuorum(ProcessCluster[Any]):
    """Three nodes of both kinds, each broker and controller: they vote for each other."""

    def __init__(
        self, folder: Path, *, kinds: Sequence[Kind], settings: Mapping[str, str] | None = None
    ) -> None:
        self.kinds = dict(zip(self.node_ids, kinds, strict=True))
        super().__init__(folder, settings=settings)

    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> Broker:
        return make_node(self.kinds[int(settings["node.id"])], folder, settings, port)

    def check_outputs(self) -> None:
        """Fail if a node reported an internal error."""
        for node in self.nodes.values():
            node.check_output()


def make_controller(
    kind: Kind, folder: Path, *, node_id: int, bootstrap: Sequence[int], is_first: bool
) -> Broker:
    """A controller of a dynamic quorum. `bootstrap`: the ports of all controllers; the own one is at `node_id` - 1."""
    port = bootstrap[node_id - 1]
    settings = {
        **SETTINGS,
        "process.roles": "controller",
        "node.id": str(node_id),
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{each}" for each in bootstrap),
        **({"controller.quorum.voters": ""} if kind == "kafka" else {}),
    }
    node = make_node(kind, folder, settings, port)
    node.format_options = ["--standalone" if is_first else "--no-initial-controllers"]
    return node
