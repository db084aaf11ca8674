"""The identity of a node: its cluster id and its log directories."""

from __future__ import annotations

from penstock.config.broker import BrokerSettings
from penstock.node.errors import CannotStart
from penstock.protocol.types import random_uuid, uuid_text
from penstock.runtime import Runtime
from penstock.storage.errors import CorruptFile
from penstock.storage.meta_properties import read_meta_properties


def directories_of(settings: BrokerSettings) -> list[str]:
    """`log.dirs`, and `metadata.log.dir` if it is not one of them."""
    metadata = settings.metadata_log_dir
    return [*settings.log_dirs, *([] if metadata in settings.log_dirs else [metadata])]


def find_cluster_id(settings: BrokerSettings, runtime: Runtime, *, new: str | None) -> str:
    """The cluster id of a formatted directory. `new` is the id for directories that are not formatted; without it, a
    node that is a cluster of its own gets a new id.

    A node of a larger cluster must not make up an id: each node would become a cluster of its own.
    """
    disk = runtime.disk
    unreadable: Exception | None = None
    for path in directories_of(settings):
        try:
            identity = read_meta_properties(disk, path) if disk.exists(path) else None
        except (OSError, CorruptFile) as error:
            unreadable = error  # the log store takes the directory offline
            continue
        if identity is not None:
            return identity.cluster_id
    if new is not None:
        return new
    if unreadable is not None:
        raise CannotStart(f"the cluster id is unknown: {unreadable}") from unreadable
    if has_other_nodes(settings):
        raise CannotStart(
            f"{settings.log_dirs[0]} is not formatted: run `penstock storage format` with the id of the cluster first"
        )
    return uuid_text(random_uuid(runtime.random))


def has_other_nodes(settings: BrokerSettings) -> bool:
    """Whether the settings name other controllers than this node."""
    servers: tuple[str, ...] = settings.get("controller.quorum.bootstrap.servers")
    own_ports = {str(listener.port) for listener in settings.controller_listeners}
    return (
        "controller" not in settings.roles
        or len(settings.get("controller.quorum.voters")) > 1
        or len(servers) > 1
        or any(server.rpartition(":")[2] not in own_ports for server in servers)
    )
