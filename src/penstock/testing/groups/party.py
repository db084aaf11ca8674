"""One group of a simulation: what its members share, and the books that are kept about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
    is_mixed: bool = False
    """Whether members of both protocols meet in it, so that it changes its type (KIP-848)."""

    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What may be set for the group at any time, without breaking what its members count on."""
    loaded_at: float = math.inf
    """Since when it is known that the coordinator has loaded the group. While it loads, it says yes to heartbeats of
    classic members without a look, so as not to disturb them."""

    ended_at: float = -math.inf
    """When the node's last life ended."""

    def answered_by_group(self, *, asked_at: float) -> None:
        """An answer came that only a coordinator can give that has loaded the group."""
        if asked_at > self.ended_at:
            self.loaded_at = min(self.loaded_at, self.now())

    def node_ended(self, end: End) -> None:
        self.ended_at, self.loaded_at = self.now(), math.inf
        if end is End.LOST_POWER and not self.is_durable:
            self.claims.power_lost()
            self.offsets.power_lost(now=self.now())

    def name_of(self, partition: Partition) -> str:
        return self.ledger.partitions[partition].name
