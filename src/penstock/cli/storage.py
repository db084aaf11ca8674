"""Format and inspect the log directories of a node.

A formatted directory has a `meta.properties` with the ids of its cluster and node (`node.formatting`). A node that is a
cluster of its own formats new directories itself on its first start; formatting before is for choosing the cluster id,
the feature levels and the first voters.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.failures import Misuse, Refusal
from penstock.cli.serve import read_settings
from penstock.config.broker import BrokerSettings
from penstock.protocol.types import random_uuid, uuid_text
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import Disk, RealDisk
from penstock.storage.errors import StorageError
from penstock.storage.meta_properties import MetaProperties, read_meta_properties

if TYPE_CHECKING:
    from penstock.node.formatting import FormatPlan, InitialQuorum


class Directory(NamedTuple):
    """One entry of `log.dirs`, or the directory of the metadata log."""

    path: str
    identity: MetaProperties | None  # None: not formatted
    exists: bool
    is_metadata: bool


def new_id() -> str:
    """A new cluster id."""
    return uuid_text(random_uuid(random.SystemRandom()))


def load_settings(file: str | None, assignments: Sequence[str] = ()) -> BrokerSettings:
    try:
        return read_settings(file, assignments)
    except Misuse as bad:
        raise Refusal(str(bad)) from bad


def inspect_directories(settings: BrokerSettings, disk: Disk | None = None) -> list[Directory]:
    """The identity of each log directory of a node."""
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
    settings: BrokerSettings,
    *,
    cluster_id: str,
    ignores_formatted: bool,
    quorum: InitialQuorum | None = None,
    features: Sequence[str] = (),
    release: str | None = None,
    disk: Disk | None = None,
) -> FormatPlan:
    """Format all directories of the node, or none."""
    from penstock.node.formatting import FormatRefused, InitialQuorum, execute, parse_features, plan

    disk = disk or RealDisk()
    try:
        planned = plan(
            settings,
            disk,
            cluster_id=cluster_id,
            quorum=quorum or InitialQuorum(),
            features=parse_features(features),
            release=release,
            ignores_formatted=ignores_formatted,
            rng=random.SystemRandom(),
        )
    except FormatRefused as refused:
        raise Refusal(str(refused)) from refused
    execute(planned, disk, now_ms=SystemClock().wall_ms())
    return planned


def _read_identity(disk: Disk, path: str) -> MetaProperties | None:
    try:
        return read_meta_properties(disk, path)
    except StorageError as problem:
        raise Refusal(f"{problem}. Restore the file, or name another directory in log.dirs") from problem
