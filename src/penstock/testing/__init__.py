"""For tests of programs that use Kafka: a real broker (`Broker`, `SharedBroker`), a real cluster (`Cluster`), and
`TopologyTest` for topologies.

`plugin` offers them as pytest fixtures. Only tests import this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.broker import Broker, BrokerFailed
    from penstock.testing.cluster import Cluster
    from penstock.testing.faults import Faults, PendingFault
    from penstock.testing.shared import SharedBroker, SharedSession
    from penstock.testing.topology import TopologyTest

__all__ = [
    "Broker",
    "BrokerFailed",
    "Cluster",
    "Faults",
    "PendingFault",
    "SharedBroker",
    "SharedSession",
    "TopologyTest",
]

_HOMES = {
    "Broker": "broker",
    "BrokerFailed": "broker",
    "Cluster": "cluster",
    "Faults": "faults",
    "PendingFault": "faults",
    "SharedBroker": "shared",
    "SharedSession": "shared",
    "TopologyTest": "topology",
}


def __getattr__(name: str) -> Any:
    """Import on first use: a test of a topology does not need the broker, and the other way round."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
