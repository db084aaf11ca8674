"""One simulated group: what its members share, and the checks of what the coordinator tells them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simulator.checks.ledger import Ledger
from simulator.clients.producers import Conditions
from simulator.groups.offsets import CommittedOffsets
from simulator.groups.ownership import Ownership, Partition
from simulator.simulation import End


@dataclass(slots=True)
class SimulatedGroup:
    group_id: str
    topics: tuple[str, ...]
    """The topics that its members subscribe to. They are never deleted."""
    ownership: Ownership
    offsets: CommittedOffsets
    ledger: Ledger
    conditions: Conditions
    is_durable: bool
    """Whether the coordinator's log is flushed before each response."""
    session_s: float
    rebalance_s: float
    heartbeat_s: float
    now: Callable[[], float]
    is_mixed: bool = False
    """Whether it has classic and consumer members, so that it is upgraded and downgraded (KIP-848)."""

    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Settings that may change at any time without affecting the timeouts that members rely on."""
    loaded_at: float = math.inf
    """Since when the coordinator is known to have loaded the group. While it loads, it accepts all heartbeats of
    classic members."""

    ended_at: float = -math.inf
    """When the node last went down."""

    def answered_by_group(self, *, asked_at: float) -> None:
        """A response arrived that the coordinator can give only after loading the group."""
        if asked_at > self.ended_at:
            self.loaded_at = min(self.loaded_at, self.now())

    def node_ended(self, end: End) -> None:
        self.ended_at, self.loaded_at = self.now(), math.inf
        if end is End.LOST_POWER and not self.is_durable:
            self.ownership.power_lost()
            self.offsets.power_lost(now=self.now())

    def name_of(self, partition: Partition) -> str:
        return self.ledger.partitions[partition].name
