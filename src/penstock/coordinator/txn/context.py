"""The dependencies of a transaction shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.broker import BrokerSettings
from penstock.coordinator.result import CoordinatorResult
from penstock.coordinator.txn.init_producer_id import NewProducerId
from penstock.coordinator.txn.markers import MarkerWriter

if TYPE_CHECKING:
    from penstock.coordinator.txn.shard import TransactionShard

Decide = Callable[["TransactionShard"], CoordinatorResult[None]]


@dataclass(frozen=True, slots=True)
class TransactionDependencies:
    """The same for every shard of a node. They are callables, because their values change."""

    settings: Callable[[], BrokerSettings]
    transaction_version: Callable[[], int]
    """The cluster's `transaction.version`."""
    coordinator_epoch: Callable[[int], int]
    """The leader epoch of a partition, for markers."""
    markers: MarkerWriter
    new_producer_id: NewProducerId
    """May raise: the service then fetches ids and retries the decision."""
    write: Callable[[int, Decide], bool]
    """Apply a decision of a shard. False if the log refused it."""
