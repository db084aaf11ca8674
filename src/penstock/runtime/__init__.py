"""Interfaces to the operating system: clock, randomness, disk, network, threads.

All other packages use the operating system only through the objects of one `Runtime`, so that a whole node runs
unchanged on a virtual clock, an in-memory network and a disk that loses unsynced data
(`tests/simulator`). Nothing here knows what a broker is.
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
    """The interfaces of one node. The composition root builds it and passes it down."""

    clock: Clock
    random: random.Random
    disk: Disk
    network: Network
    workers: Workers
    supervisor: Supervisor = field(default_factory=Supervisor)
    """Restarts the background tasks of the node."""
