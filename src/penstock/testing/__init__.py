"""For tests: a real broker to test against, and the fakes with which Penstock itself is tested.

`Broker`, `SharedBroker`, `TopologyTest` and the pytest plugin are for everybody. The rest is a virtual clock, an
in-memory network and a disk that loses what was not synced: with these a whole node, and later a whole cluster, runs in
one thread from one seed; a failure prints the seed that repeats it. Nothing but tests imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.broker import Broker, BrokerFailed
    from penstock.testing.faults import Faults, PendingFault
    from penstock.testing.shared import SharedBroker, SharedSession
    from penstock.testing.topology import TopologyTest

__all__ = [
    "Broker",
    "BrokerFailed",
    "Faults",
    "PendingFault",
    "SharedBroker",
    "SharedSession",
    "TopologyTest",
]

_HOMES = {
    "Broker": "broker",
    "BrokerFailed": "broker",
    "Faults": "faults",
    "PendingFault": "faults",
    "SharedBroker": "shared",
    "SharedSession": "shared",
    "TopologyTest": "topology",
}


def __getattr__(name: str) -> Any:
    """Imported when first named: who simulates needs no processes, and the other way round."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
