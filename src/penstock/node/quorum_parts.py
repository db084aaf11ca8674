"""Builds the quorum of a node from its settings and its metadata log."""

from __future__ import annotations

import socket
from collections.abc import Callable

from penstock.config.broker import BrokerSettings
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import METADATA_TOPIC
from penstock.net.node_connections import NodeConnections
from penstock.node.identity import has_other_nodes
from penstock.node.metadata_log import StoredQuorumLog, metadata_log_settings
from penstock.protocol.types import METADATA_TOPIC_ID
from penstock.quorum.driver import Quorum
from penstock.quorum.peers import NetworkPeers
from penstock.quorum.settings import QuorumSettings
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.runtime import Runtime
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.storage.store import LogStore


def open_metadata_log(settings: BrokerSettings, logs: LogStore) -> tuple[Log, LogDirectory]:
    """The metadata log, which is created at the first start, and its directory."""
    found = logs.get(METADATA_TOPIC, 0)
    if found is None:
        found = logs.create(
            METADATA_TOPIC,
            0,
            METADATA_TOPIC_ID,
            metadata_log_settings(settings),
            path=settings.metadata_log_dir,
        )
    return found, logs.directory_of(found)


def build_quorum(
    *,
    settings: BrokerSettings,
    runtime: Runtime,
    cluster_id: str,
    metadata_log: Log,
    directory: LogDirectory,
    connections: NodeConnections,
    image: Callable[[], MetadataImage],
) -> Quorum:
    me = _voter(settings, directory)
    return Quorum(
        me=me,
        log=StoredQuorumLog(
            metadata_log,
            runtime.clock,
            runtime.workers,
            committed_offset=directory.checkpointed_high_watermark(METADATA_TOPIC, 0),
        ),
        state_file=QuorumStateFile(runtime.disk, metadata_log.folder),
        snapshots=Snapshots(runtime.disk, metadata_log.folder),
        clock=runtime.clock,
        workers=runtime.workers,
        rng=runtime.random,
        cluster_id=cluster_id,
        peers=NetworkPeers(connections),
        settings=QuorumSettings.read(settings),
        is_controller="controller" in settings.roles,
        auto_join=settings.get("controller.quorum.auto.join.enable"),
        initial_voters=NO_VOTERS if has_other_nodes(settings) else Voters([me]),
        image=image,
    )


def _voter(settings: BrokerSettings, directory: LogDirectory) -> Voter:
    """This node as other controllers reach it: at its advertised controller listeners."""
    names = settings.controller_listener_names
    listeners = (
        [each for each in settings.advertised_listeners if each.name in names]
        or list(settings.controller_listeners)
        or list(settings.broker_listeners[:1])
    )
    default_host = socket.getfqdn() if has_other_nodes(settings) else "localhost"
    endpoints = tuple(VoterEndpoint(each.name, each.host or default_host, each.port) for each in listeners)
    return Voter(ReplicaKey(settings.node_id, directory.directory_id), endpoints)
