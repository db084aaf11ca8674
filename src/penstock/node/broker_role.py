"""The broker of a node: its partitions, coordinators and request handlers.

It is built from a node's logs and metadata. `open` applies the metadata, which opens the partitions. Then the broker
can be unfenced and serve clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.broker import handlers
from penstock.broker.broker import Broker
from penstock.broker.broker_requests import BrokerRequests
from penstock.broker.controller_channel import ControllerChannel
from penstock.broker.directory_assignments import DirectoryAssignments
from penstock.broker.dispatcher import Dispatcher
from penstock.broker.leader_markers import LeaderMarkers
from penstock.broker.producer_ids import AllocatedProducerIds, ProducerIds
from penstock.broker.remote_verification import RemoteCoordinators
from penstock.broker.transaction_markers import LocalMarkers
from penstock.config.broker import BrokerSettings
from penstock.coordinator.group.service import GroupCoordinator
from penstock.coordinator.txn.service import TransactionCoordinator
from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from penstock.metadata.resources import ResourceType
from penstock.metadata.settings import DynamicSettings
from penstock.net.listener import ConnectionTable
from penstock.net.node_connections import NodeConnections
from penstock.node.applying import MetadataApplier
from penstock.node.coordinator_log import PartitionCoordinatorLog
from penstock.node.failures import Coordinator
from penstock.node.listeners import read_connection_limits
from penstock.replication.fetchers import ReplicaFetchers
from penstock.replication.isr_changes import IsrChanges
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)


class BrokerRole:
    def __init__(
        self,
        *,
        settings: BrokerSettings,
        dynamic: DynamicSettings,
        cluster_id: str,
        runtime: Runtime,
        logs: LogStore,
        metadata: MetadataCache,
        channel: ControllerChannel,
        node_connections: NodeConnections,
        broker_epoch: Callable[[], int],
        kraft_version: Callable[[], int],
        connections: ConnectionTable,
        connections_max: int | None,
        failed: Callable[[Exception], None],
    ) -> None:
        """`connections_max` is the limit that the descriptors of the process set. `failed` stops the node."""
        self._settings = settings
        self._dynamic = dynamic
        self._cluster_id = cluster_id
        self._runtime = runtime
        self._logs = logs
        self._metadata = metadata
        self._connections = connections
        self._connections_max = connections_max
        self._isr_changes = IsrChanges(
            node_id=settings.node_id,
            broker_epoch=broker_epoch,
            image=lambda: metadata.image,
            channel=channel,
            supervisor=runtime.supervisor,
            lag_ms_max=settings.get("replica.lag.time.max.ms"),
        )
        self.partitions = PartitionTable(
            node_id=settings.node_id,
            logs=logs,
            topic_settings=dynamic.of_topic,
            isr_context=self._isr_changes,
        )
        self._fetchers = ReplicaFetchers(
            node_id=settings.node_id,
            runtime=runtime,
            partitions=self.partitions,
            connections=node_connections,
            settings=self._current_settings,
            listener=settings.inter_broker_listener_name,
            broker_epoch=broker_epoch,
        )
        self.groups = GroupCoordinator(
            log=self._coordinator_log(OFFSETS_TOPIC, settings.get("offsets.load.buffer.size")),
            image=lambda: metadata.image,
            settings=self._current_settings,
            group_settings=lambda group_id: dynamic.of_group(metadata.image, group_id),
            wall_ms=runtime.clock.wall_ms,
            rng=runtime.random,
        )
        producer_ids = ProducerIds(AllocatedProducerIds(channel, broker_epoch), settings.node_id)
        other_brokers = self._other_brokers = BrokerRequests(
            node_connections, lambda: metadata.image, listener=settings.inter_broker_listener_name
        )
        self._markers = LeaderMarkers(
            LocalMarkers(self.partitions, self.groups, runtime),
            node_id=settings.node_id,
            image=lambda: metadata.image,
            brokers=other_brokers,
        )
        self._remote_coordinators = RemoteCoordinators(
            node_id=settings.node_id,
            image=lambda: metadata.image,
            brokers=other_brokers,
            timeout_s=settings.get("request.timeout.ms") / 1000,
        )
        self.transactions = TransactionCoordinator(
            log=self._coordinator_log(
                TRANSACTIONS_TOPIC, settings.get("transaction.state.log.load.buffer.size")
            ),
            image=lambda: metadata.image,
            settings=self._current_settings,
            producer_ids=producer_ids,
            markers=self._markers,
            wall_ms=runtime.clock.wall_ms,
        )
        self.coordinators: dict[str, Coordinator] = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
        }
        self.broker = Broker(
            node_id=settings.node_id,
            cluster_id=cluster_id,
            runtime=runtime,
            settings=self._current_settings(),
            metadata=metadata,
            partitions=self.partitions,
            logs=logs,
            channel=channel,
            groups=self.groups,
            transactions=self.transactions,
            producer_ids=producer_ids,
            remote_coordinators=self._remote_coordinators,
            kraft_version=kraft_version,
        )
        self.dispatcher = Dispatcher(self.broker, handlers.TABLE)
        self._assignments = DirectoryAssignments(
            node_id=settings.node_id,
            broker_epoch=broker_epoch,
            partitions=self.partitions,
            logs=logs,
            metadata=metadata,
            controller=channel,
            supervisor=runtime.supervisor,
            draw=runtime.random.random,
        )
        self._applier = MetadataApplier(
            metadata,
            parts=(
                self.partitions.apply,
                self._isr_changes.apply,
                self._fetchers.apply,
                self._assignments.apply,
                self._elect_coordinators,
            ),
            after=self._applied,
            failed=failed,
        )
        self.broker.metadata_settled = self._applier.settled

    async def open(self) -> None:
        """Apply the metadata: open the partitions, and start what follows them."""
        self.broker.started_s = asyncio.get_running_loop().time()
        self._isr_changes.start(self.partitions)
        self._assignments.start()
        self._apply_settings()
        self._log_dynamic_settings()
        self._metadata.subscribe(self._metadata_changed)
        await self._applier.start()
        self.partitions.remove_strays()
        handlers.load_hot()

    async def stop_serving(self) -> None:
        """Complete the waiting requests with an error, and finish the others."""
        await self._applier.close()
        await self._close_coordinators()
        await self._fetchers.close()
        await self._isr_changes.close()
        self.partitions.close()
        await asyncio.sleep(0)  # send the responses of the requests that were just completed
        await self.dispatcher.close()

    async def close(self) -> None:
        """Stop everything that was started. Also after a start that failed."""
        await self._applier.close()
        await self._assignments.close()
        await self._fetchers.close()
        await self._isr_changes.close()
        await self._close_coordinators()
        await self._markers.close()
        await self._remote_coordinators.close()

    async def _close_coordinators(self) -> None:
        await self.groups.close()
        await self.transactions.close()

    # -- changes at run time

    def _elect_coordinators(self, delta: MetadataDelta) -> None:
        """A node coordinates the groups and transactions of the partitions that it leads."""
        # Deletions first: a new topic of the same name, perhaps in the same change, begins without groups.
        for topic in (change.before for change in delta.topics.values() if change.after is None):
            if topic is not None and (coordinator := self.coordinators.get(topic.name)) is not None:
                for index in range(len(topic.partitions)):
                    coordinator.resigned(index)
        for change in delta.topics.values():
            topic = change.after
            if topic is None or (coordinator := self.coordinators.get(topic.name)) is None:
                continue
            for index in change.changed_partitions:
                partition = self.partitions.get(topic.name, index)
                if partition is not None and partition.is_leader:
                    coordinator.elected(index, partition.leader_epoch)
                else:
                    coordinator.resigned(index)

    def _applied(self, delta: MetadataDelta) -> None:
        self._other_brokers.metadata_changed(delta)
        self.groups.metadata_changed(delta)
        self.transactions.metadata_changed(delta)

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            self._apply_settings()

    def _apply_settings(self) -> None:
        self.broker.settings = self._current_settings()
        self._connections.limits = read_connection_limits(
            self.broker.settings, connections_max=self._connections_max
        )

    def _log_dynamic_settings(self) -> None:
        """Log the dynamic settings of this broker. The controller logs later changes."""
        settings = self.broker.settings
        shown = settings.overridden()
        for name in sorted({*settings.dynamic_cluster, *settings.dynamic_broker}):
            if name in shown:
                logger.info("dynamic setting %s=%s", name, shown[name])

    def _current_settings(self) -> BrokerSettings:
        return self._dynamic.of_broker(self._metadata.image)

    def _coordinator_log(self, topic: str, read_bytes: int) -> PartitionCoordinatorLog:
        runtime = self._runtime
        return PartitionCoordinatorLog(
            topic, self.partitions, clock=runtime.clock, workers=runtime.workers, read_bytes=read_bytes
        )
