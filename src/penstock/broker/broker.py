"""The parts of a node that request handlers use. `node` builds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.broker.fetch_session import FetchSessions
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.replica_selector import RACK_AWARE
from penstock.broker.slow_lane import SlowLane
from penstock.broker.transaction_verification import TransactionVerifier
from penstock.metadata.cache import MetadataCache
from penstock.metadata.features import KRAFT_LEVEL
from penstock.replication.quota import ReplicationQuota
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime

if TYPE_CHECKING:
    from penstock.broker.controller_channel import ControllerChannel
    from penstock.broker.remote_verification import RemoteCoordinators
    from penstock.config.broker import BrokerSettings
    from penstock.coordinator.group.service import GroupCoordinator
    from penstock.coordinator.txn.service import TransactionCoordinator
    from penstock.storage.store import LogStore


class Broker:
    __slots__ = (
        "channel",
        "cluster_id",
        "fetch_max_bytes",
        "fetch_sessions",
        "groups",
        "kraft_version",
        "leader_quota",
        "logs",
        "metadata",
        "metadata_settled",
        "node_id",
        "partitions",
        "producer_ids",
        "runtime",
        "selects_replicas",
        "settings",
        "slow_lane",
        "started_s",
        "transaction_verifier",
        "transactions",
    )

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        runtime: Runtime,
        settings: BrokerSettings,
        metadata: MetadataCache,
        partitions: PartitionTable,
        logs: LogStore,
        channel: ControllerChannel,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        producer_ids: ProducerIds,
        remote_coordinators: RemoteCoordinators | None = None,
        kraft_version: Callable[[], int] = lambda: KRAFT_LEVEL,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.runtime = runtime
        self.settings = settings
        self.metadata = metadata
        self.partitions = partitions
        self.logs = logs
        self.channel = channel
        """To the active controller."""
        self.groups = groups
        self.kraft_version = kraft_version
        """The level of kraft.version, which is not in the image."""
        self.fetch_sessions = FetchSessions(
            settings.get("max.incremental.fetch.session.cache.slots"), runtime.random
        )
        self.transactions = transactions
        self.transaction_verifier = TransactionVerifier(
            transactions, lambda: self.settings, remote_coordinators
        )
        self.producer_ids = producer_ids
        self.slow_lane = SlowLane(runtime.workers)
        self.metadata_settled: Callable[[], Awaitable[None]] = _at_once
        """Waits until this broker has applied the newest metadata: its partitions are open."""
        self.started_s = 0.0
        """When this process began to open its partitions, by the clock of the event loop."""
        self.fetch_max_bytes: int = settings.get("fetch.max.bytes")
        """Read once, because every fetch needs it, and it is not dynamic."""
        self.leader_quota = ReplicationQuota(lambda: self.settings.get("leader.replication.throttled.rate"))
        self.selects_replicas = settings.get("replica.selector.class") == RACK_AWARE
        """Whether consumers may be sent to followers (KIP-392)."""


async def _at_once() -> None:
    """Without a `MetadataApplier`, every change is applied when it is published."""
