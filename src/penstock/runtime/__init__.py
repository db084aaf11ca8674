"""The seams to the outside: clock, randomness, disk, network, threads.

Everything above this package reaches the world only through the objects of one `Runtime`, so that a whole node runs
unchanged on a virtual clock, an in-memory network and a disk that loses what was not synced
(`penstock.testing`). Nothing here knows what a broker is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from penstock.runtime.clock import Clock
from penstock.runtime.disk import Disk
from penstock.runtime.network import Network
from penstock.runtime.supervisor import Supervisor
from penstock.runtime.workers import Lane, Workers

__all__ = ["Clock", "Disk", "Lane", "Network", "Runtime", "Supervisor", "Workers"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """One node's view of the world; the composition root builds it and hands it down."""

    clock: Clock
    random: random.Random
    disk: Disk
    network: Network
    workers: Workers
    supervisor: Supervisor = field(default_factory=Supervisor)
    """Keeps the background tasks of the node running."""
