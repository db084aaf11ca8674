"""One node, from its settings and a `Runtime`: what exists, who knows whom, and in which order they come up.

Start: log directories are opened and recovered; the metadata log is replayed, which opens the partitions; the node
registers and is let in; only then are peers accepted. Stop is the way back, and ends with the note in every directory
that says that nothing needs to be recovered. There is no special case for a single node: it is a cluster of one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.broker.broker import Broker
from penstock.broker.dispatcher import Dispatcher
from penstock.broker.handlers import load_hot
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.transaction_markers import LocalMarkers
from penstock.config.broker import BrokerSettings
from penstock.config.checks import connection_limits
from penstock.config.listeners import SECURITY_PROTOCOLS
from penstock.config.listeners import Listener as Address
from penstock.config.topic import TopicSettings
from penstock.controller import Controller
from penstock.controller.brokers import Registration
from penstock.coordinator.group.service import GroupCoordinator
from penstock.coordinator.txn.service import TransactionCoordinator
from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import Endpoint
from penstock.metadata.names import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from penstock.metadata.resources import ResourceType
from penstock.metadata.settings import DynamicSettings
from penstock.net.connection import Server
from penstock.net.listener import ConnectionLimits, ConnectionTable, Listener
from penstock.node.coordinator_log import LedPartitions
from penstock.node.failures import Coordinator, DirectoryFailures
from penstock.node.metadata_log import StoredQuorumLog, metadata_log_settings
from penstock.protocol.types import METADATA_TOPIC_ID, random_uuid, uuid_text
from penstock.quorum.driver import Quorum, QuorumRefused
from penstock.quorum.state_file import BadQuorumState, QuorumStateFile
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import StorageError
from penstock.storage.identity import read_identity
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings, StoreSettings
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

# How descriptors are divided: a log that cannot open a file goes out of service with its whole directory, so
# connections must leave enough. What is left over is for indexes of old segments and for small files.
LOG_FILES_SHARE = 4
CONNECTIONS_SHARE = 2


class CannotStart(Exception):
    """The node's settings ask for something that this version does not do, or its address is taken."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a node says of itself when it serves."""

    node_id: int
    cluster_id: str
    addresses: tuple[str, ...]
    log_dirs: tuple[str, ...]


class Node:
    def __init__(
        self,
        settings: BrokerSettings,
        runtime: Runtime,
        *,
        descriptors_max: int | None = None,
        wrap_server: Callable[[Server], Server] | None = None,
    ) -> None:
        self.settings = settings
        self._store_settings = StoreSettings.read(settings)
        self._connections_max: int | None = None
        if descriptors_max is not None:
            open_files_max = descriptors_max // LOG_FILES_SHARE
            self._store_settings = replace(self._store_settings, open_files_max=open_files_max)
            self._connections_max = descriptors_max // CONNECTIONS_SHARE
        self._runtime = runtime
        self._wrap_server = wrap_server
        self._dynamic = DynamicSettings(settings)
        self._listeners: list[tuple[Address, Listener]] = []
        self._leads = False
        self._owes_epochs = False
        """Logs may lack their ends, and no new leader epoch tells so yet. If this start fails, the next one owes it."""
        self.connections = ConnectionTable(self._connection_limits(settings))

    async def start(self) -> Ready:
        settings, runtime = self.settings, self._runtime
        _refuse_what_is_not_yet(settings)
        self.cluster_id = self._find_cluster_id()
        self.logs = LogStore(
            _directories(settings),
            runtime=runtime,
            settings=self._store_settings,
            topic_settings=self._settings_at_load,
            node_id=settings.node_id,
            cluster_id=self.cluster_id,
            reserved={settings.metadata_log_dir} - set(settings.log_dirs),
            move_bytes_per_second=self._move_bytes_per_second,
        )
        try:
            await self.logs.start()
        except StorageError as error:
            raise CannotStart(str(error)) from error
        try:
            self._owes_epochs = not self.logs.was_clean
            await self._start_services(keeps_epochs=not self._owes_epochs)
            self._owes_epochs = False
        except (StorageError, QuorumRefused, BadQuorumState) as error:
            await self._stop_services()
            raise CannotStart(str(error)) from error
        except BaseException:
            await self._stop_services()
            raise
        return Ready(
            settings.node_id,
            self.cluster_id,
            tuple(str(self._bound(address, listener)) for address, listener in self._listeners),
            settings.log_dirs,
        )

    async def stop(self) -> None:
        """Take no more work, send away those who wait, write everything down."""
        for _, listener in self._listeners:
            listener.stop_accepting()
        await self.groups.close()
        await self.transactions.close()
        self.partitions.close()
        await asyncio.sleep(0)  # those who were just sent away get their answers out
        await self.dispatcher.close()
        self.connections.close_all()
        await self._stop_services()

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done with `NodeFailed` when the node cannot go on; see `failures`."""
        return self._failures.ended

    # -- start, step by step

    def _find_cluster_id(self) -> str:
        """The id that a directory was formatted with, or a new one for a new cluster."""
        disk = self._runtime.disk
        for path in _directories(self.settings):
            if disk.exists(path) and (identity := read_identity(disk, path)) is not None:
                return identity.cluster_id
        return uuid_text(random_uuid(self._runtime.random))

    def _settings_at_load(self, topic: str) -> LogSettings:
        """Before the metadata is read: recovery needs none of a topic's own settings, and gets them right after."""
        if topic == METADATA_TOPIC:
            return metadata_log_settings(self.settings)
        return LogSettings.read(TopicSettings.resolve(self.settings, {}))

    def _move_bytes_per_second(self) -> int:
        rate: int = self._dynamic.of_broker(self.metadata.image).get(
            "replica.alter.log.dirs.io.max.bytes.per.second"
        )
        return rate

    async def _start_services(self, *, keeps_epochs: bool) -> None:
        settings, runtime = self.settings, self._runtime
        self.metadata = MetadataCache()
        self.partitions = PartitionTable(
            node_id=settings.node_id, logs=self.logs, topic_settings=self._dynamic.of_topic
        )
        self.metadata.subscribe(self.partitions.apply)
        metadata_log, directory = self._open_metadata_log()
        self._quorum = Quorum(
            me=self._voter(directory),
            log=StoredQuorumLog(metadata_log, runtime.clock),
            state_file=QuorumStateFile(runtime.disk, metadata_log.folder),
            clock=runtime.clock,
            workers=runtime.workers,
        )
        self.controller = Controller(
            node_id=settings.node_id,
            quorum=self._quorum,
            cache=self.metadata,
            settings=self._dynamic,
            rng=runtime.random,
        )
        self.groups = GroupCoordinator(
            log=self._led_partitions(OFFSETS_TOPIC, settings.get("offsets.load.buffer.size")),
            image=lambda: self.metadata.image,
            settings=lambda: self._dynamic.of_broker(self.metadata.image),
            group_settings=lambda group_id: self._dynamic.of_group(self.metadata.image, group_id),
            wall_ms=runtime.clock.wall_ms,
            rng=runtime.random,
        )
        producer_ids = ProducerIds(self.controller, settings.node_id)
        self.transactions = TransactionCoordinator(
            log=self._led_partitions(
                TRANSACTIONS_TOPIC, settings.get("transaction.state.log.load.buffer.size")
            ),
            image=lambda: self.metadata.image,
            settings=lambda: self._dynamic.of_broker(self.metadata.image),
            producer_ids=producer_ids,
            markers=LocalMarkers(self.partitions, self.groups, runtime),
            wall_ms=runtime.clock.wall_ms,
        )
        self._coordinators: dict[str, Coordinator] = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
        }
        self.metadata.subscribe(self._coordinate)
        self._failures = DirectoryFailures(
            node_id=settings.node_id,
            logs=self.logs,
            log_dirs=settings.log_dirs,
            metadata_directory=directory,
            partitions=self.partitions,
            controller=self.controller,
            coordinators=self._coordinators,
            supervisor=runtime.supervisor,
            report_timeout_ms=settings.get("log.dir.failure.timeout.ms"),
        )
        self._quorum.ended.add_done_callback(self._quorum_ended)
        await self.controller.start()
        self._leads = True
        self.partitions.remove_strays()
        self.broker = Broker(
            node_id=settings.node_id,
            cluster_id=self.cluster_id,
            runtime=runtime,
            settings=self._dynamic.of_broker(self.metadata.image),
            metadata=self.metadata,
            partitions=self.partitions,
            logs=self.logs,
            controller=self.controller,
            groups=self.groups,
            transactions=self.transactions,
            producer_ids=producer_ids,
        )
        self.dispatcher = Dispatcher(self.broker)
        self._apply_broker_settings()
        self._log_dynamic_settings()
        self.metadata.subscribe(self._metadata_changed)
        load_hot()
        await self._bind()
        await self._join(keeps_epochs=keeps_epochs)
        self._failures.registered()
        for _, listener in self._listeners:
            listener.start()

    def _led_partitions(self, topic: str, read_bytes: int) -> LedPartitions:
        runtime = self._runtime
        return LedPartitions(
            topic, self.partitions, clock=runtime.clock, workers=runtime.workers, read_bytes=read_bytes
        )

    def _open_metadata_log(self) -> tuple[Log, LogDirectory]:
        settings = metadata_log_settings(self.settings)
        found = self.logs.get(METADATA_TOPIC, 0)
        if found is None:
            path = self.settings.metadata_log_dir
            found = self.logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, settings, path=path)
        return found, self.logs.directory_of(found)

    def _voter(self, directory: LogDirectory) -> Voter:
        listeners = self.settings.controller_listeners or self.settings.broker_listeners[:1]
        endpoints = tuple(VoterEndpoint(each.name, each.host or "localhost", each.port) for each in listeners)
        return Voter(ReplicaKey(self.settings.node_id, directory.directory_id), endpoints)

    async def _bind(self) -> None:
        server: Server = self._wrap_server(self.dispatcher) if self._wrap_server else self.dispatcher
        for address in self.settings.listeners:
            listener = Listener(address.name, server, self.connections)
            try:
                await listener.bind(self._runtime.network, address.host, address.port)
            except OSError as error:
                remedy = "stop the other program, or " if error.errno == errno.EADDRINUSE else ""
                raise CannotStart(
                    f"cannot listen on {address}: {error.strerror or error}; "
                    f"{remedy}choose another address with --set listeners=..."
                ) from error
            self._listeners.append((address, listener))

    async def _join(self, *, keeps_epochs: bool) -> None:
        settings = self.settings
        registration = Registration(
            node_id=settings.node_id,
            incarnation_id=random_uuid(self._runtime.random),
            endpoints=tuple(self._endpoint(each) for each in settings.advertised_listeners
                            if each.name not in settings.controller_listener_names),
            features=SUPPORTED,
            directories=tuple(each.directory_id for each in self.logs.directories
                              if each.is_online and each.path in settings.log_dirs),
            rack=settings.get("broker.rack"),
        )  # fmt: skip
        controller = Registration(
            node_id=settings.node_id,
            incarnation_id=registration.incarnation_id,
            endpoints=tuple(self._endpoint(each) for each in settings.controller_listeners)
            or registration.endpoints,
            features=SUPPORTED,
            directories=registration.directories,
        )
        await self.controller.join(
            registration,
            controller=controller,
            keeps_epochs=keeps_epochs,
            offline=self.partitions.offline(),
        )

    def _endpoint(self, advertised: Address) -> Endpoint:
        """What clients are told: an empty host is this machine's name, port 0 the port that was given out."""
        port = advertised.port or next(
            listener.port for address, listener in self._listeners if address.name == advertised.name
        )
        host = advertised.host or socket.getfqdn()
        return Endpoint(advertised.name, host, port, SECURITY_PROTOCOLS.index(advertised.security_protocol))

    def _bound(self, address: Address, listener: Listener) -> Address:
        return Address(address.name, address.host, listener.port, address.security_protocol)

    # -- what changes while it runs

    def _coordinate(self, delta: MetadataDelta) -> None:
        """Groups and transactions live where the partitions of their topics are led."""
        for change in delta.topics.values():
            topic = change.after or change.before
            assert topic is not None, "a topic that changed was there before or is there now"
            coordinator = self._coordinators.get(topic.name)
            if coordinator is not None:
                gone = range(len(topic.partitions)) if change.after is None else ()
                for index in (*change.changed_partitions, *gone):
                    partition = self.partitions.get(topic.name, index)
                    if partition is not None and partition.is_leader:
                        coordinator.elected(index, partition.leader_epoch)
                    else:
                        coordinator.resigned(index)
        self.groups.metadata_changed(delta)
        self.transactions.metadata_changed(delta)

    def _quorum_ended(self, ended: asyncio.Future[None]) -> None:
        reason = None if ended.cancelled() else ended.exception()
        if isinstance(reason, Exception):
            self._failures.fail(reason)

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            self.broker.settings = self._dynamic.of_broker(delta.image)
            self._apply_broker_settings()

    def _log_dynamic_settings(self) -> None:
        """What the metadata log sets for this broker, over its file; changes are logged by the controller."""
        settings = self.broker.settings
        shown = settings.overridden()
        for name in sorted({*settings.dynamic_cluster, *settings.dynamic_broker}):
            if name in shown:
                logger.info("dynamic setting %s=%s", name, shown[name])

    def _apply_broker_settings(self) -> None:
        self.connections.limits = self._connection_limits(self.broker.settings)

    def _connection_limits(self, settings: BrokerSettings) -> ConnectionLimits:
        connections_max: int = settings.get("max.connections")
        if self._connections_max is not None:
            connections_max = min(connections_max, self._connections_max)
        return ConnectionLimits(
            connections_max=connections_max,
            connections_per_host_max=settings.get("max.connections.per.ip"),
            host_overrides=connection_limits(settings.get("max.connections.per.ip.overrides")),
            idle_ms_max=settings.get("connections.max.idle.ms"),
            frame_bytes_max=settings.get("socket.request.max.bytes"),
        )

    # -- stop

    async def _stop_services(self) -> None:
        for _, listener in self._listeners:
            listener.stop_accepting()
        if self._leads:
            await self.groups.close()
            await self.transactions.close()
            await self._failures.close()
            await self.controller.close()
        await self.logs.close(leaves_note=not self._owes_epochs)


def _directories(settings: BrokerSettings) -> list[str]:
    """`log.dirs`, and the metadata log's own directory where it is none of them."""
    metadata = settings.metadata_log_dir
    return [*settings.log_dirs, *([] if metadata in settings.log_dirs else [metadata])]


def _refuse_what_is_not_yet(settings: BrokerSettings) -> None:
    if settings.roles != {"broker", "controller"}:
        raise CannotStart(
            f"process.roles={','.join(sorted(settings.roles))}: this version runs nodes that are both broker and "
            "controller; set process.roles=broker,controller or leave it out"
        )
    for key in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        controllers = settings.get(key)
        if len(controllers) > 1:
            # Each of them would become a cluster of its own, and take what clients meant for all.
            raise CannotStart(
                f"{key}={','.join(controllers)}: this version runs clusters of one node; "
                "name this node alone, or leave it out"
            )
    for listener in settings.listeners:
        if listener.security_protocol != "PLAINTEXT":
            raise CannotStart(
                f"{listener}: the security protocol {listener.security_protocol} is not served yet; use PLAINTEXT"
            )
