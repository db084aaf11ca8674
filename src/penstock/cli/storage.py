"""Formatting a node's directories, and telling what they hold.

A directory is formatted when it says whose it is (`meta.properties`). A node that finds none formatted does it
itself when it first starts, so formatting is for those who want to choose the cluster's id, or who follow Kafka's
instructions. Directories that belong to another cluster or node are refused before anything is written to any.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from penstock.cli.failures import Refusal
from penstock.cli.serve import Refusal as BadSettings
from penstock.cli.serve import read_settings
from penstock.config.broker import BrokerSettings
from penstock.protocol.types import random_uuid, uuid_text
from penstock.runtime.disk import Disk, RealDisk
from penstock.storage.errors import StorageError
from penstock.storage.identity import DirectoryIdentity, check_identity, read_identity, write_identity

METADATA_RELEASE = "4.3-IV0"


class Directory(NamedTuple):
    """One entry of `log.dirs`, or the directory of the metadata log."""

    path: str
    identity: DirectoryIdentity | None  # None: not formatted
    exists: bool
    is_metadata: bool


class Formatted(NamedTuple):
    path: str
    is_metadata: bool
    was_formatted: bool


def new_id() -> str:
    """As a cluster's id is spelled."""
    return uuid_text(random_uuid(random.SystemRandom()))


def load_settings(file: str | None, assignments: Sequence[str] = ()) -> BrokerSettings:
    try:
        return read_settings(file, assignments)
    except BadSettings as bad:
        raise Refusal(str(bad)) from bad


def inspect_directories(settings: BrokerSettings, disk: Disk | None = None) -> list[Directory]:
    """What each of a node's directories says of itself."""
    disk = disk or RealDisk()
    paths = list(dict.fromkeys([*settings.log_dirs, settings.metadata_log_dir]))
    return [
        Directory(
            path,
            _read_identity(disk, path),
            exists=disk.exists(path),
            is_metadata=path == settings.metadata_log_dir,
        )
        for path in paths
    ]


def format_directories(
    settings: BrokerSettings, *, cluster_id: str, ignores_formatted: bool, disk: Disk | None = None
) -> list[Formatted]:
    """Make this node's directories those of the cluster, all or none."""
    disk = disk or RealDisk()
    found = inspect_directories(settings, disk)
    for directory in found:
        if directory.identity is None:
            continue
        try:
            check_identity(
                directory.path, directory.identity, cluster_id=cluster_id, node_id=settings.node_id
            )
        except StorageError as refused:
            raise Refusal(f"{refused}. Nothing was formatted") from refused
        if not ignores_formatted:
            raise Refusal(
                f"Log directory {directory.path} is already formatted. Use --ignore-formatted to ignore this "
                "directory and format the others."
            )
    for directory in found:
        if directory.identity is None:
            disk.make_directory(directory.path)
            write_identity(
                disk,
                directory.path,
                DirectoryIdentity(cluster_id, settings.node_id, random_uuid(random.SystemRandom())),
            )
    return [
        Formatted(directory.path, directory.is_metadata, directory.identity is not None)
        for directory in found
    ]


def _read_identity(disk: Disk, path: str) -> DirectoryIdentity | None:
    try:
        return read_identity(disk, path)
    except StorageError as problem:
        raise Refusal(f"{problem}. Restore the file, or name another directory in log.dirs") from problem
