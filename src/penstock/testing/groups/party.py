"""One group of a simulation: what its members share, and the books that are kept about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.testing.groups.claims import Claims, Partition
from penstock.testing.groups.offsets import CommittedOffsets
from penstock.testing.ledger import Ledger
from penstock.testing.producers import Weather
from penstock.testing.simulation import End


@dataclass(slots=True)
class Party:
    group_id: str
    topics: tuple[str, ...]
    """What its members subscribe to; these topics stay."""
    claims: Claims
    offsets: CommittedOffsets
    ledger: Ledger
    weather: Weather
    is_durable: bool
    """Whether the coordinator's log is flushed before it answers."""
    session_s: float
    rebalance_s: float
    heartbeat_s: float
    now: Callable[[], float]

    def node_ended(self, end: End) -> None:
        if end is End.LOST_POWER and not self.is_durable:
            self.claims.power_lost()
            self.offsets.power_lost(now=self.now())

    def name_of(self, partition: Partition) -> str:
        return self.ledger.partitions[partition].name
