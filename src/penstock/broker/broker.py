"""The bundle that handlers work on: one node's parts, put together by `node` and given to every handler as it
is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.fetch_session import FetchSessions
from penstock.broker.lag import Lags
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.slow_lane import SlowLane
from penstock.broker.transaction_adds import TransactionAdds
from penstock.metadata.cache import MetadataCache
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime

if TYPE_CHECKING:
    from penstock.config.broker import BrokerSettings
    from penstock.controller import Controller
    from penstock.coordinator.group.service import GroupCoordinator
    from penstock.coordinator.txn.service import TransactionCoordinator
    from penstock.storage.store import LogStore


class Broker:
    __slots__ = (
        "cluster_id",
        "controller",
        "fetch_max_bytes",
        "fetch_sessions",
        "groups",
        "lags",
        "logs",
        "metadata",
        "node_id",
        "partitions",
        "producer_ids",
        "runtime",
        "settings",
        "slow_lane",
        "transaction_adds",
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
        controller: Controller,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        producer_ids: ProducerIds,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.runtime = runtime
        self.settings = settings
        self.metadata = metadata
        self.partitions = partitions
        self.logs = logs
        self.controller = controller
        self.groups = groups
        self.lags = Lags(groups, partitions, runtime.clock)
        self.fetch_sessions = FetchSessions(
            settings.get("max.incremental.fetch.session.cache.slots"), runtime.random
        )
        self.transactions = transactions
        self.transaction_adds = TransactionAdds(transactions, lambda: self.settings)
        self.producer_ids = producer_ids
        self.slow_lane = SlowLane(runtime.workers)
        self.fetch_max_bytes: int = settings.get("fetch.max.bytes")
        """Read for every fetch, and not to be changed while the node runs, so it is read here once."""
