"""A cluster on one host: its nodes, their ports, directories and settings. `local_cluster` runs it.

    DIR/cluster.properties    the cluster id, the number of nodes, and which of them are controllers
    DIR/node-1.properties     the settings of node 1, written at every start
    DIR/node-1/               the log directory of node 1
    DIR/.lock                 locked by the process that runs the cluster

Node n listens on PORT + n - 1 for clients and brokers. A controller listens on the port 100 above it for other nodes.
With three nodes or more, the first three are brokers and controllers, and the rest are only brokers. With fewer, node
1 is the only controller: a quorum of two stops when either of them does. The controllers of a directory stay the same;
a later start may add brokers.

By default, topics have three replicas, or as many as there are nodes, and `acks=all` needs all of these but one.

All nodes have the host's name as their `broker.rack`, unless it is set. So if nodes of another host join the cluster,
the replicas of a partition are spread over both hosts.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.config.listeners import PORT_MAX
from penstock.config.properties import BadProperties, decode_properties, parse_properties
from penstock.protocol.types import random_uuid, uuid_text
from penstock.runtime.disk import RealDirectoryLock, RealDisk
from penstock.storage.layout import LOCK, META_PROPERTIES
from penstock.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties

CLUSTER_FILE = "cluster.properties"
CONTROLLER_PORT_OFFSET = 100
NODES_MAX = CONTROLLER_PORT_OFFSET
REPLICAS_MAX = 3
CONTROLLERS_MAX = 3  # two may be lost with five, but each commit would wait for three nodes on the same disk

OWN_SETTINGS = frozenset(
    (
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    )
)
"""Settings that differ between the nodes, so a common file cannot have them."""


class LayoutRefused(Exception):
    """The cluster cannot run as asked. The message says what to do."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    node_id: int
    port: int
    controller_port: int | None
    """None if it is not a controller."""
    directory: Path
    settings: Mapping[str, str]
    """Everything that its properties file has."""

    @property
    def ports(self) -> tuple[int, ...]:
        return (self.port,) if self.controller_port is None else (self.port, self.controller_port)

    @property
    def properties_file(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.properties")


@dataclass(frozen=True, slots=True)
class LocalLayout:
    cluster_id: str
    data: Path
    host: str
    controllers: tuple[int, ...]
    nodes: tuple[LocalNode, ...]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host}:{node.port}" for node in self.nodes)


def plan(
    data: Path, *, count: int, port: int, host: str = "127.0.0.1", settings: Mapping[str, str] | None = None
) -> LocalLayout:
    """The cluster in `data`, or a new one. `settings` are for all nodes. Writes nothing."""
    settings = {**_replication_defaults(count), **(settings or {})}
    _check(data, count=count, port=port, settings=settings)
    known = _read(data)
    if known is None:
        controllers = tuple(range(1, 1 + (CONTROLLERS_MAX if count >= CONTROLLERS_MAX else 1)))
        known = _Known(uuid_text(random_uuid(random.SystemRandom())), controllers, count)
    if count < known.node_count:
        raise LayoutRefused(
            f"{data} has a cluster of {known.node_count} nodes: start it with --nodes {known.node_count}, or choose "
            "another directory"
        )
    quorum = ",".join(f"{each}@{host}:{_controller_port(each, port)}" for each in known.controllers)
    nodes = tuple(
        _node(data, node_id, known.controllers, host=host, port=port, quorum=quorum, common=settings)
        for node_id in range(1, count + 1)
    )
    return LocalLayout(known.cluster_id, data, host, known.controllers, nodes)


def lock(data: Path) -> RealDirectoryLock:
    """Keep other processes from running a cluster in `data`, until the lock is released or this process ends."""
    data.mkdir(parents=True, exist_ok=True)
    try:
        return RealDisk().lock(str(data / LOCK))
    except BlockingIOError as exc:
        raise LayoutRefused(
            f"the cluster in {data} is running already: stop that `penstock serve --nodes` first, or choose another "
            "directory with --data and other ports with --port"
        ) from exc


def write(layout: LocalLayout) -> None:
    """Write the files of the cluster, and format the directories of new nodes."""
    layout.data.mkdir(parents=True, exist_ok=True)
    # First: if this start is interrupted, the next one formats the rest with the same cluster id.
    _write_properties(
        layout.data / CLUSTER_FILE,
        {
            "cluster.id": layout.cluster_id,
            "controllers": ",".join(map(str, layout.controllers)),
            "nodes": str(len(layout.nodes)),
        },
    )
    disk = RealDisk()
    for node in layout.nodes:
        _write_properties(node.properties_file, node.settings)
        path = str(node.directory)
        disk.make_directory(path)
        if read_meta_properties(disk, path) is None:
            identity = MetaProperties(layout.cluster_id, node.node_id, random_uuid(random.SystemRandom()))
            write_meta_properties(disk, path, identity)


def _check(data: Path, *, count: int, port: int, settings: Mapping[str, str]) -> None:
    if not 1 <= count <= NODES_MAX:
        raise LayoutRefused(f"--nodes {count}: must be between 1 and {NODES_MAX}")
    last = port + CONTROLLER_PORT_OFFSET + count - 1
    if port < 1 or last > PORT_MAX:
        raise LayoutRefused(
            f"--port {port}: the nodes need the ports up to {last}, and the last port is {PORT_MAX}"
        )
    for name in settings:
        if name in OWN_SETTINGS:
            raise LayoutRefused(
                f"{name} differs between the nodes, so it cannot be set with --nodes; "
                "use --data, --port and --host, or run each node with its own properties file"
            )
    if (data / META_PROPERTIES).exists():
        raise LayoutRefused(
            f"{data} is the log directory of a single node; start it without --nodes, or choose another directory"
        )


def _replication_defaults(count: int) -> dict[str, str]:
    """With three nodes or more, no acknowledged record is lost with one of them, and writes go on."""
    replicas = min(count, REPLICAS_MAX)
    return {"default.replication.factor": str(replicas), "min.insync.replicas": str(max(1, replicas - 1))}


class _Known(NamedTuple):
    """The cluster of a directory."""

    cluster_id: str
    controllers: tuple[int, ...]
    node_count: int


def _read(data: Path) -> _Known | None:
    file = data / CLUSTER_FILE
    try:
        found = parse_properties(decode_properties(file.read_bytes()))
        controllers = tuple(int(each) for each in found["controllers"].split(","))
        return _Known(found["cluster.id"], controllers, int(found["nodes"]))
    except FileNotFoundError:
        return None
    except (BadProperties, KeyError, ValueError) as error:
        raise LayoutRefused(
            f"{file} is damaged ({error}): restore it, or choose another directory"
        ) from error


def _node(
    data: Path,
    node_id: int,
    controllers: tuple[int, ...],
    *,
    host: str,
    port: int,
    quorum: str,
    common: Mapping[str, str],
) -> LocalNode:
    node_port = port + node_id - 1
    controller_port = _controller_port(node_id, port) if node_id in controllers else None
    listeners = [f"PLAINTEXT://{host}:{node_port}"]
    if controller_port is not None:
        listeners.append(f"CONTROLLER://{host}:{controller_port}")
    directory = data / f"node-{node_id}"
    settings = {
        "broker.rack": socket.gethostname(),
        **common,
        "node.id": str(node_id),
        "process.roles": "broker" if controller_port is None else "broker,controller",
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": quorum,
        "log.dirs": str(directory),
    }
    return LocalNode(node_id, node_port, controller_port, directory, settings)


def _controller_port(node_id: int, port: int) -> int:
    return port + CONTROLLER_PORT_OFFSET + node_id - 1


def _write_properties(file: Path, properties: Mapping[str, str]) -> None:
    lines = ["# Written by `penstock serve --nodes` at every start.\n"]
    lines += [f"{name}={_escape(value)}\n" for name, value in properties.items()]
    draft = file.with_name(f"{file.name}.tmp")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(file)


def _escape(value: str) -> str:
    """In Java's properties format a backslash escapes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
