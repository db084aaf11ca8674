"""`meta.properties` of a log directory, and `partition.metadata` of a partition.

A directory of another node or cluster is refused before anything in it is changed.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from penstock.protocol.types import Uuid, parse_uuid, uuid_text
from penstock.runtime.disk import Disk
from penstock.storage.errors import CorruptFile, DirectoryRefused
from penstock.storage.files import read_if_exists
from penstock.storage.layout import META_PROPERTIES, PARTITION_METADATA

META_VERSION = 1


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: Uuid


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """The contents of `meta.properties`; None if there is no such file."""
    data = read_if_exists(disk, os.path.join(path, META_PROPERTIES))
    if data is None:
        return None
    values = _properties(data, "=")
    try:
        if int(values["version"]) != META_VERSION:
            raise CorruptFile(
                f"{META_PROPERTIES} in {path} has version {values['version']}, not {META_VERSION}"
            )
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), parse_uuid(values["directory.id"])
        )
    except (KeyError, ValueError) as error:
        raise CorruptFile(f"{META_PROPERTIES} in {path} is incomplete: {error}") from error


def write_meta_properties(disk: Disk, path: str, identity: MetaProperties) -> None:
    lines = [
        f"cluster.id={identity.cluster_id}",
        f"directory.id={uuid_text(identity.directory_id)}",
        f"node.id={identity.node_id}",
        f"version={META_VERSION}",
        "",
    ]
    disk.write_file(os.path.join(path, META_PROPERTIES), "\n".join(lines).encode())


def check_meta_properties(path: str, found: MetaProperties, *, cluster_id: str, node_id: int) -> None:
    """Raise DirectoryRefused unless the directory belongs to this node."""
    if found.cluster_id != cluster_id:
        raise DirectoryRefused(
            f"{path} holds data of cluster {found.cluster_id}, but this is cluster {cluster_id}"
        )
    if found.node_id != node_id:
        raise DirectoryRefused(
            f"{path} holds data of node {found.node_id}, but this is node {node_id}; "
            f"set node.id={found.node_id}, or set another directory in log.dirs"
        )


def read_topic_id(disk: Disk, folder: str) -> Uuid | None:
    """The topic id in `partition.metadata`; None if the file is missing or torn."""
    data = read_if_exists(disk, os.path.join(folder, PARTITION_METADATA))
    try:
        return parse_uuid(_properties(data, ":")["topic_id"]) if data is not None else None
    except (KeyError, ValueError):
        return None


def encode_topic_id(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def _properties(data: bytes, separator: str) -> dict[str, str]:
    values = {}
    for line in data.decode(errors="replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith("#"):
            values[name.strip()] = value.strip()
    return values
