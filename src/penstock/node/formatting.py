"""Formats the log directories of a node, as `kafka-storage.sh format` does.

Every directory gets `meta.properties`, with the ids of cluster, node and directory, and `bootstrap.checkpoint`, with
the feature levels of a new cluster. A controller of a quorum with dynamic voters also gets the first voters, in the
snapshot 0-0 of the metadata log; with static voters they are in the settings of every node.

`plan` checks everything and writes nothing. A directory of another cluster or node is refused, and nothing is written
to any directory.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.config.broker import BrokerSettings
from penstock.metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED, initial_levels
from penstock.metadata.names import METADATA_TOPIC
from penstock.metadata.records import FeatureLevelRecord
from penstock.metadata.releases import RELEASES, level_of
from penstock.node.identity import directories_of, has_other_nodes
from penstock.protocol.types import Uuid, parse_uuid, random_uuid
from penstock.quorum.bootstrap import write_bootstrap
from penstock.quorum.control import KRAFT_VERSION as DYNAMIC_VOTERS
from penstock.quorum.messages import SnapshotId
from penstock.quorum.snapshots import SnapshotHead, Snapshots
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.runtime.disk import Disk
from penstock.storage.errors import DirectoryRefused, StorageError
from penstock.storage.layout import partition_folder
from penstock.storage.meta_properties import (
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)

FLAGS = "--standalone, --initial-controllers, or --no-initial-controllers"


class FormatRefused(Exception):
    """The directories cannot be formatted like that."""


@dataclass(frozen=True, slots=True)
class InitialQuorum:
    """The flags that say who votes first; at most one is set."""

    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controllers: str | None = None


@dataclass(frozen=True, slots=True)
class DirectoryPlan:
    path: str
    identity: MetaProperties
    was_formatted: bool
    is_metadata: bool


@dataclass(frozen=True, slots=True)
class FormatPlan:
    directories: tuple[DirectoryPlan, ...]
    levels: Mapping[str, int]
    """Without `kraft.version`."""
    voters: Voters | None
    """The first voters of a dynamic quorum; None if this node does not know them."""

    @property
    def metadata_version(self) -> int:
        return self.levels[METADATA_VERSION]

    @property
    def is_voter(self) -> bool:
        return self.voters is not None and any(
            directory.is_metadata
            and ReplicaKey(directory.identity.node_id, directory.identity.directory_id) in self.voters
            for directory in self.directories
        )


def plan(
    settings: BrokerSettings,
    disk: Disk,
    *,
    cluster_id: str,
    quorum: InitialQuorum,
    features: Mapping[str, int],
    release: str | None,
    ignores_formatted: bool,
    rng: random.Random,
) -> FormatPlan:
    """Raises FormatRefused."""
    listed = _listed_voters(settings, quorum)
    own_id = next((voter.key.directory_id for voter in listed if voter.key.node_id == settings.node_id), None)
    directories = []
    for path in directories_of(settings):
        is_metadata = path == settings.metadata_log_dir
        found = _read_identity(disk, path)
        if found is not None:
            _check_formatted(
                settings, path, found, cluster_id=cluster_id, ignores_formatted=ignores_formatted
            )
        directory_id = own_id if is_metadata and own_id is not None else random_uuid(rng)
        identity = found or MetaProperties(cluster_id, settings.node_id, directory_id)
        directories.append(DirectoryPlan(path, identity, found is not None, is_metadata))
    voters = Voters(listed) if listed else None
    if _is_standalone(settings, quorum):
        metadata = next(directory for directory in directories if directory.is_metadata)
        voters = Voters([_own_voter(settings, metadata.identity.directory_id)])
    return FormatPlan(
        tuple(directories), _levels(features, release, settings, is_dynamic=_is_dynamic(quorum)), voters
    )


def execute(planned: FormatPlan, disk: Disk, *, now_ms: int) -> None:
    """`meta.properties` comes last: without it, a directory is not formatted, and the next attempt writes all again."""
    records = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in planned.levels.items()
        if level > 0
    ]
    for directory in planned.directories:
        if directory.was_formatted:
            continue
        disk.make_directory(directory.path)
        write_bootstrap(disk, directory.path, records, now_ms=now_ms)
        if directory.is_metadata:
            _write_voters(planned.voters, directory.path, disk, now_ms=now_ms)
        write_meta_properties(disk, directory.path, directory.identity)


def _write_voters(voters: Voters | None, path: str, disk: Disk, *, now_ms: int) -> None:
    """The snapshot 0-0. Without voters, remove what an attempt that crashed may have left."""
    folder = os.path.join(path, partition_folder(METADATA_TOPIC, 0))
    snapshots = Snapshots(disk, folder)
    first = SnapshotId(0, 0)
    if voters is not None:
        disk.make_directory(folder)
        snapshots.write(first, SnapshotHead(voters, DYNAMIC_VOTERS, now_ms), (), now_ms=now_ms)
        disk.sync_directory(path)
    elif disk.exists(snapshots.path(first)):
        snapshots.remove([first])
        disk.sync_directory(folder)


def parse_features(texts: Sequence[str]) -> dict[str, int]:
    """`--feature name=level`, for any number of them."""
    levels = {}
    for text in texts:
        name, separator, level = (part.strip() for part in text.partition("="))
        if not separator or not level.isdecimal():
            raise FormatRefused(f"Can't parse feature=level string {text}")
        levels[name] = int(level)
    return levels


def parse_initial_controllers(text: str, listener: str) -> list[Voter]:
    """`id@host:port:directory id`, separated by commas."""
    voters: list[Voter] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        node_id, _, rest = entry.partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        try:
            key = ReplicaKey(int(node_id), parse_uuid(directory))
            endpoint = VoterEndpoint(listener, host.removeprefix("[").removesuffix("]"), int(port))
        except ValueError as error:
            raise FormatRefused(
                f"--initial-controllers: {entry} is not of the form id@host:port:directory-id ({error})"
            ) from error
        if not host or any(voter.key.node_id == key.node_id for voter in voters):
            raise FormatRefused(f"--initial-controllers: {entry} has no host, or its id is listed twice")
        voters.append(Voter(key, (endpoint,)))
    if not voters:
        raise FormatRefused("--initial-controllers: no controller is listed")
    return voters


def _listed_voters(settings: BrokerSettings, quorum: InitialQuorum) -> list[Voter]:
    """The voters of `--initial-controllers`, after all checks of the flags."""
    is_controller = "controller" in settings.roles
    has_static_voters = bool(settings.get("controller.quorum.voters"))
    sets_voters = quorum.standalone or quorum.initial_controllers is not None
    if has_static_voters and sets_voters:
        raise FormatRefused(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if sets_voters and not is_controller:
        flag = "--standalone" if quorum.standalone else "--initial-controllers"
        raise FormatRefused(f"You can only use {flag} on a controller.")
    if not is_controller or has_static_voters or _is_dynamic(quorum):
        if quorum.initial_controllers is None:
            return []
        listener = next(iter(settings.controller_listener_names), "CONTROLLER")
        return parse_initial_controllers(quorum.initial_controllers, listener)
    if has_other_nodes(settings):
        raise FormatRefused(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            f"{FLAGS}."
        )
    return []


def _is_dynamic(quorum: InitialQuorum) -> bool:
    return quorum.standalone or quorum.no_initial_controllers or quorum.initial_controllers is not None


def _is_standalone(settings: BrokerSettings, quorum: InitialQuorum) -> bool:
    """A node without other controllers needs no flag."""
    if quorum.standalone:
        return True
    return not (_is_dynamic(quorum) or settings.get("controller.quorum.voters") or has_other_nodes(settings))


def _own_voter(settings: BrokerSettings, directory_id: Uuid) -> Voter:
    listeners = settings.controller_listeners or settings.broker_listeners[:1]
    endpoints = tuple(VoterEndpoint(each.name, each.host or "localhost", each.port) for each in listeners)
    return Voter(ReplicaKey(settings.node_id, directory_id), endpoints)


def _read_identity(disk: Disk, path: str) -> MetaProperties | None:
    try:
        return read_meta_properties(disk, path) if disk.exists(path) else None
    except StorageError as problem:
        raise FormatRefused(
            f"{problem}. Restore the file, or name another directory in log.dirs"
        ) from problem


def _check_formatted(
    settings: BrokerSettings, path: str, found: MetaProperties, *, cluster_id: str, ignores_formatted: bool
) -> None:
    try:
        check_meta_properties(path, found, cluster_id=cluster_id, node_id=settings.node_id)
    except DirectoryRefused as refused:
        raise FormatRefused(f"{refused}. Nothing was formatted") from refused
    if not ignores_formatted:
        raise FormatRefused(
            f"Log directory {path} is already formatted. Use --ignore-formatted to ignore this directory and format "
            "the others."
        )


def _levels(
    features: Mapping[str, int], release: str | None, settings: BrokerSettings, *, is_dynamic: bool
) -> dict[str, int]:
    """The levels of a new cluster; those of `features` override those of the release."""
    if release is not None and METADATA_VERSION in features:
        raise FormatRefused(
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
        )
    newest = SUPPORTED[METADATA_VERSION].max_level
    level = features.get(METADATA_VERSION, newest) if release is None else level_of(release)
    if level is None:
        raise FormatRefused(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(RELEASES)}"
        )
    levels = initial_levels(level)
    for name, wanted in {METADATA_VERSION: level, **features}.items():
        supported = SUPPORTED.get(name)
        if supported is None:
            known = ", ".join(sorted(each for each in SUPPORTED if each != METADATA_VERSION))
            raise FormatRefused(f"Unsupported feature: {name}. Supported features are: {known}")
        if wanted not in supported:
            raise FormatRefused(
                f"No feature:{name} with feature level {wanted}: the supported levels are {supported}"
            )
        levels[name] = wanted
    _check_kraft_version(levels.pop(KRAFT_VERSION, None), settings, is_dynamic=is_dynamic)
    return levels


def _check_kraft_version(level: int | None, settings: BrokerSettings, *, is_dynamic: bool) -> None:
    """It is 1 in a quorum with dynamic voters, and 0 with static ones."""
    if level == 0 and is_dynamic:
        raise FormatRefused(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags "
            f"{FLAGS} is used. For dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if level is not None and level > 0 and settings.get("controller.quorum.voters"):
        raise FormatRefused(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags "
            f"{FLAGS} is used. For dynamic controllers support, try using one of {FLAGS} and removing "
            "controller.quorum.voters."
        )
