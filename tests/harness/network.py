"""A cluster whose nodes are hosts of a network of their own, so that nodes can be cut off from each other.

Every node has a network namespace. A bridge connects them, and clients in the namespace of the test reach all nodes. A
cut is silent: packets are sent to an address that no host has, so connections hang, as they do when a switch fails.
Needs root. The test must run in a network namespace of its own (`run_in_own_network`): nothing can leave the machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.brokers import tool
from harness.penstock_cluster import PenstockCluster, PenstockNode

MARK = "PENSTOCK_TEST_OWN_NETWORK"
BRIDGE = "bridge"
SUBNET = "192.0.2"  # reserved for examples (RFC 5737)
UNUSED_MAC = "02:00:00:00:00:ff"


def can_have_own_network() -> bool:
    return os.geteuid() == 0


def in_own_network() -> bool:
    return MARK in os.environ


def run_in_own_network(command: Sequence[str]) -> int:
    """Run a command in a new network namespace; its exit status."""
    return subprocess.run([tool("unshare"), "--net", *command], env={**os.environ, MARK: "1"}).returncode


class SeparateHosts(PenstockCluster):
    """Three nodes of Penstock, each with a network namespace of its own."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        assert in_own_network(), "run this with run_in_own_network"
        super().__init__(folder, settings=settings)

    def host(self, node_id: int) -> str:
        return f"{SUBNET}.{node_id}"

    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> PenstockNode:
        return _Host(folder, settings=settings, port=port)

    def start(self) -> None:
        _ip("link", "set", "lo", "up")
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("link", "set", BRIDGE, "up")
        _ip("address", "add", f"{SUBNET}.254/24", "dev", BRIDGE)
        for node_id in self.nodes:
            namespace = _namespace(node_id)
            _ip("netns", "add", namespace)
            _ip("link", "add", f"host{node_id}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", f"host{node_id}", "master", BRIDGE, "up")
            _ip("-n", namespace, "address", "add", f"{self.host(node_id)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", namespace, "link", "set", device, "up")
        super().start()

    def isolate(self, node_id: int) -> None:
        """Cut all links between this node and the others, in both directions."""
        for other in self.nodes:
            if other != node_id:
                self._cut(node_id, other)
                self._cut(other, node_id)

    def heal(self) -> None:
        for node_id in self.nodes:
            _ip("-n", _namespace(node_id), "neighbour", "flush", "nud", "permanent")
        super().heal()

    def close(self) -> None:
        super().close()
        for node_id in self.nodes:
            subprocess.run([tool("ip"), "netns", "delete", _namespace(node_id)], stderr=subprocess.DEVNULL)

    def _cut(self, source: int, target: int) -> None:
        neighbour = (self.host(target), "lladdr", UNUSED_MAC, "dev", "eth0", "nud", "permanent")
        _ip("-n", _namespace(source), "neighbour", "replace", *neighbour)


class _Host(PenstockNode):
    def command(self) -> Sequence[str]:
        namespace = _namespace(int(self.settings["node.id"]))
        return [tool("ip"), "netns", "exec", namespace, *super().command()]


def _namespace(node_id: int) -> str:
    """Names of namespaces are shared by all processes of the machine."""
    return f"penstock-{os.getpid()}-{node_id}"


def _ip(*arguments: str) -> None:
    subprocess.run([tool("ip"), *arguments], check=True)
