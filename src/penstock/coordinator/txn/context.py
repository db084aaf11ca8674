"""What a shard of transactions needs of its node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.broker import BrokerSettings
from penstock.coordinator.outcome import Outcome
from penstock.coordinator.txn.initiating import NewProducerId
from penstock.coordinator.txn.markers import MarkerWriter

if TYPE_CHECKING:
    from penstock.coordinator.txn.shard import TransactionShard

Decide = Callable[["TransactionShard"], Outcome[None]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The same for every shard of a node; each a question, because the answers change."""

    settings: Callable[[], BrokerSettings]
    transaction_version: Callable[[], int]
    """The cluster's `transaction.version`."""
    coordinator_epoch: Callable[[int], int]
    """The leader epoch of a partition, which markers carry."""
    markers: MarkerWriter
    new_producer_id: NewProducerId
    """May raise: whoever asked for the decision then gets ids and asks again."""
    write: Callable[[int, Decide], bool]
    """Let a decision of a shard's own be carried out now. False where the log refused it."""
