"""One node: builds its parts from the settings and a `Runtime`, and starts and stops them.

A node has the role of a broker, of a controller, or both (`process.roles`). Start: open and recover the log
directories; join the quorum, which replays the metadata log; register the broker; open its partitions; unfence it; then
accept connections. Stop is the reverse, and ends with the marker of a clean shutdown in every log directory.

There is no special case for a single node: it is a cluster of one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.controller_channel import ControllerChannel
from penstock.broker.dispatcher import Dispatcher
from penstock.broker.lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleEnded
from penstock.broker.lifecycle_core import NO_EPOCH, LifecycleCore
from penstock.config.broker import BrokerSettings
from penstock.config.topic import TopicSettings
from penstock.controller import Controller
from penstock.coordinator.group.service import GroupCoordinator
from penstock.coordinator.txn.service import TransactionCoordinator
from penstock.metadata.cache import MetadataCache
from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import Endpoint
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.names import METADATA_TOPIC
from penstock.metadata.settings import DynamicSettings
from penstock.net.connection import Server
from penstock.net.listener import ConnectionTable
from penstock.net.node_connections import NodeAddress, NodeConnections
from penstock.node.broker_role import BrokerRole
from penstock.node.controller_role import ControllerRole
from penstock.node.errors import CannotStart
from penstock.node.failures import DirectoryFailures, NodeFailed
from penstock.node.identity import directories_of, find_cluster_id
from penstock.node.listeners import NodeListeners, read_connection_limits
from penstock.node.metadata_log import metadata_log_settings
from penstock.node.quorum_listener import MetadataListener
from penstock.node.quorum_parts import build_quorum, open_metadata_log
from penstock.protocol.types import Uuid, random_uuid
from penstock.quorum.bootstrap import read_bootstrap
from penstock.quorum.core import CommittedRecordsLost
from penstock.quorum.driver import CorruptMetadataLog, Quorum, QuorumRefused
from penstock.quorum.state_file import BadQuorumState
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.storage.errors import StorageError
from penstock.storage.settings import CleanerSettings, LogSettings, StoreSettings
from penstock.storage.store import LogStore

__all__ = ["CannotStart", "Node", "Ready"]

logger = logging.getLogger(__name__)

# Shares of the file descriptors. If a log cannot open a file, its whole directory goes offline, so connections must
# leave enough. The rest is for indexes of old segments and for small files.
LOG_FILES_SHARE = 4
CONNECTIONS_SHARE = 2

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 30_000

REFUSALS = (
    StorageError,
    QuorumRefused,
    BadQuorumState,
    CorruptMetadataLog,
    CorruptMetadata,
    CommittedRecordsLost,
    LifecycleEnded,
    NodeFailed,
)


@dataclass(frozen=True, slots=True)
class Ready:
    """The identity and addresses of a started node."""

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
        cluster_id: str | None = None,
        descriptors_max: int | None = None,
        wrap_server: Callable[[Server], Server] | None = None,
    ) -> None:
        """`cluster_id` is for log directories that are not formatted yet. Without it, only a node that is a cluster of
        its own can start on them, and gets a new id."""
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
        self._new_cluster_id = cluster_id
        self._controller: ControllerRole | None = None
        self._broker: BrokerRole | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._is_in_quorum = False
        self._stopped: asyncio.Event | None = None
        self.connections = ConnectionTable(
            read_connection_limits(settings, connections_max=self._connections_max)
        )
        self.quorum: Quorum
        self._listeners = NodeListeners(runtime.network, self.connections)
        self._node_connections = NodeConnections(
            runtime.network,
            client_id=f"node-{settings.node_id}",
            rng=runtime.random,
            setup_timeout_ms=settings.get("socket.connection.setup.timeout.ms"),
            setup_timeout_max_ms=settings.get("socket.connection.setup.timeout.max.ms"),
        )

    async def start(self) -> Ready:
        settings, runtime = self.settings, self._runtime
        self.cluster_id = find_cluster_id(settings, runtime, new=self._new_cluster_id)
        self.logs = LogStore(
            directories_of(settings),
            runtime=runtime,
            settings=self._store_settings,
            topic_settings=self._settings_at_load,
            node_id=settings.node_id,
            cluster_id=self.cluster_id,
            reserved={settings.metadata_log_dir} - set(settings.log_dirs),
            move_bytes_per_second=self._move_bytes_per_second,
            cleaner_settings=self._cleaner_settings,
        )
        try:
            await self.logs.start()
        except StorageError as error:
            raise CannotStart(str(error)) from error
        try:
            await self._start_services()
        except REFUSALS as error:
            await self._stop_services()
            raise CannotStart(str(error)) from error
        except BaseException:
            await self._stop_services()
            raise
        return Ready(
            settings.node_id, self.cluster_id, self._listeners.bound(settings.listeners), settings.log_dirs
        )

    async def stop(self) -> None:
        """Move the leaders to other brokers, stop accepting requests, complete the waiting ones with an error, and
        close the logs cleanly."""
        is_healthy = not self.ended.done()
        if self._lifecycle is not None and is_healthy and self.settings.get("controlled.shutdown.enable"):
            await self._lifecycle.shut_down(timeout_ms=CONTROLLED_SHUTDOWN_TIMEOUT_MS)
        self._listeners.stop_accepting()
        if self._broker is not None:
            await self._broker.stop_serving()
        await self._stop_services()

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done with `NodeFailed` if the node fails; see `failures`."""
        return self._failures.ended

    # -- parts, for tests

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "this node is no controller"
        return self._controller.controller

    @property
    def broker(self) -> Broker:
        return self._broker_role.broker

    @property
    def dispatcher(self) -> Dispatcher[Broker]:
        return self._broker_role.dispatcher

    @property
    def partitions(self) -> PartitionTable:
        return self._broker_role.partitions

    @property
    def groups(self) -> GroupCoordinator:
        return self._broker_role.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self._broker_role.transactions

    @property
    def _broker_role(self) -> BrokerRole:
        assert self._broker is not None, "this node is no broker"
        return self._broker

    # -- start, step by step

    def _settings_at_load(self, topic: str) -> LogSettings:
        """Settings for recovery, before the metadata is loaded. The settings of topics are applied right after."""
        if topic == METADATA_TOPIC:
            return metadata_log_settings(self.settings)
        return self._default_log_settings

    @cached_property
    def _default_log_settings(self) -> LogSettings:
        return LogSettings.read(TopicSettings.resolve(self.settings, {}))

    def _move_bytes_per_second(self) -> int:
        rate: int = self._dynamic.of_broker(self.metadata.image).get(
            "replica.alter.log.dirs.io.max.bytes.per.second"
        )
        return rate

    def _cleaner_settings(self) -> CleanerSettings:
        return CleanerSettings.read(self._dynamic.of_broker(self.metadata.image))

    async def _start_services(self) -> None:
        settings = self.settings
        self.metadata = MetadataCache()
        loader = MetadataLoader(self.metadata)
        self._open_quorum()
        if "controller" in settings.roles:
            self._build_controller(loader)
        self.channel = self._build_channel()
        if "broker" in settings.roles:
            self._build_broker()
        await self._bind()
        controller = None if self._controller is None else self._controller.controller
        await self.quorum.start(
            MetadataListener(
                loader,
                controller,
                node_id=settings.node_id,
                leader_changed=self.channel.leader_changed,
            )
        )
        self._is_in_quorum = True
        self._listeners.start(settings.controller_listeners)
        incarnation_id = random_uuid(self._runtime.random)
        if self._controller is not None:
            self._controller.register(
                incarnation_id, self._controller_endpoints(), self.channel,
                timeout_ms=settings.get("controller.socket.timeout.ms"),
            )  # fmt: skip
        if self._broker is not None:
            await self._start_broker(self._broker, incarnation_id)

    def _open_quorum(self) -> None:
        metadata_log, directory = open_metadata_log(self.settings, self.logs)
        self._failures = DirectoryFailures(
            logs=self.logs,
            log_dirs=self.settings.log_dirs if "broker" in self.settings.roles else (),
            metadata_directory=directory,
            supervisor=self._runtime.supervisor,
            report_timeout_ms=self.settings.get("log.dir.failure.timeout.ms"),
        )
        self.quorum = build_quorum(
            settings=self.settings,
            runtime=self._runtime,
            cluster_id=self.cluster_id,
            metadata_log=metadata_log,
            directory=directory,
            connections=self._node_connections,
            image=lambda: self.metadata.image,
        )
        self.quorum.ended.add_done_callback(self._quorum_ended)

    def _build_controller(self, loader: MetadataLoader) -> None:
        self._controller = ControllerRole(
            node_id=self.settings.node_id,
            cluster_id=self.cluster_id,
            inter_broker_listener=self.settings.inter_broker_listener_name,
            dynamic=self._dynamic,
            runtime=self._runtime,
            metadata=self.metadata,
            loader=loader,
            quorum=self.quorum,
            bootstrap=lambda: read_bootstrap(self._runtime.disk, self.settings.metadata_log_dir),
        )

    def _build_channel(self) -> ControllerChannel:
        return ControllerChannel(
            node_id=self.settings.node_id,
            local=None if self._controller is None else self._controller.server,
            leader=self._active_controller,
            connections=self._node_connections,
            rng=self._runtime.random,
            request_timeout_ms=self.settings.get("controller.socket.timeout.ms"),
        )

    def _active_controller(self) -> NodeAddress | None:
        """The leader of the quorum, if it is known."""
        leader_id = self.quorum.leader.leader_id
        if leader_id == self.settings.node_id:
            return NodeAddress(leader_id, "", 0)
        peer = self.quorum.leader_peer
        return None if peer is None else NodeAddress(*peer)

    def _build_broker(self) -> None:
        self._broker = BrokerRole(
            settings=self.settings,
            dynamic=self._dynamic,
            cluster_id=self.cluster_id,
            runtime=self._runtime,
            logs=self.logs,
            metadata=self.metadata,
            channel=self.channel,
            node_connections=self._node_connections,
            broker_epoch=self._broker_epoch,
            kraft_version=lambda: self.quorum.kraft_version,
            connections=self.connections,
            connections_max=self._connections_max,
            failed=self._failures.fail,
        )

    def _broker_epoch(self) -> int:
        return NO_EPOCH if self._lifecycle is None else self._lifecycle.broker_epoch

    async def _bind(self) -> None:
        settings = self.settings
        if self._controller is not None:
            await self._listeners.bind(
                settings.controller_listeners, self._wrapped(self._controller.dispatcher)
            )
        if self._broker is not None:
            await self._listeners.bind(settings.broker_listeners, self._wrapped(self._broker.dispatcher))

    def _wrapped(self, server: Server) -> Server:
        return server if self._wrap_server is None else self._wrap_server(server)

    async def _start_broker(self, broker: BrokerRole, incarnation_id: Uuid) -> None:
        lifecycle = self._lifecycle = self._build_lifecycle(incarnation_id)
        lifecycle.start()
        await self._unless_failed(lifecycle.until_caught_up())
        await broker.open()
        self._failures.opened(broker.partitions, broker.coordinators)
        await self._unless_failed(lifecycle.until_unfenced())
        self._failures.registered(lifecycle.report_directories)
        self._listeners.start(self.settings.broker_listeners)

    def _build_lifecycle(self, incarnation_id: Uuid) -> BrokerLifecycle:
        settings = self.settings
        identity = BrokerIdentity(
            node_id=settings.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=incarnation_id,
            endpoints=tuple(self._listeners.endpoint(each) for each in settings.advertised_listeners
                            if each.name not in settings.controller_listener_names),
            features=SUPPORTED,
            directories=tuple(each.directory_id for each in self.logs.directories
                              if each.is_online and each.path in settings.log_dirs),
            rack=settings.get("broker.rack"),
        )  # fmt: skip
        session_timeout_ms: int = settings.get("broker.session.timeout.ms")
        core = LifecycleCore(
            previous_broker_epoch=self.logs.previous_broker_epoch,
            heartbeat_interval_ms=settings.get("broker.heartbeat.interval.ms"),
            session_timeout_ms=session_timeout_ms,
            registration_timeout_ms=settings.get("initial.broker.registration.timeout.ms"),
            now_ms=asyncio.get_running_loop().time() * 1000,
            draw=self._runtime.random.random,
        )
        return BrokerLifecycle(
            identity,
            core,
            controller=self.channel,
            metadata=self.metadata,
            supervisor=self._runtime.supervisor,
            timeout_ms=session_timeout_ms // 2,
            failed=self._failures.refused,
        )

    def _controller_endpoints(self) -> tuple[Endpoint, ...]:
        settings = self.settings
        listeners = [
            each for each in settings.advertised_listeners if each.name in settings.controller_listener_names
        ]
        listeners = listeners or list(settings.controller_listeners or settings.broker_listeners)
        return tuple(self._listeners.endpoint(each) for each in listeners)

    async def _unless_failed(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait, unless the node fails meanwhile."""
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait([task, self.ended], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.ended.result()
        finally:
            task.cancel()
        await task

    def _quorum_ended(self, ended: asyncio.Future[None]) -> None:
        reason = None if ended.cancelled() else ended.exception()
        if isinstance(reason, Exception):
            self._failures.fail(reason)

    # -- stop

    async def _stop_services(self) -> None:
        """Stop everything that was started, once: a start that fails and `stop` may both come here."""
        if self._stopped is not None:
            await self._stopped.wait()
            return
        self._stopped = asyncio.Event()
        try:
            await self._stop_all()
        finally:
            self._stopped.set()

    async def _stop_all(self) -> None:
        self._listeners.stop_accepting()
        broker_epoch = self.logs.previous_broker_epoch
        if self._lifecycle is not None:
            await self._lifecycle.close()
            broker_epoch = max(broker_epoch, self._lifecycle.broker_epoch)
        if self._broker is not None:
            await self._broker.close()
        if self._is_in_quorum:
            self.channel.close()
            if self._controller is not None:
                await self._controller.close()
            await self.quorum.close()
            await self._failures.close()
        self.connections.close_all()
        await self._node_connections.close()
        # Without the note, the next start is that after a crash. A broker whose unclean shutdown the controller does
        # not know of yet must still report it.
        is_reported = self._broker is None or broker_epoch != NO_EPOCH
        await self.logs.close(leaves_note=is_reported, broker_epoch=broker_epoch)
