"""Assignors: who shall read what. The coordinator's own, as Kafka's brokers have them: `uniform` and `range`.

An assignor is a plain function of the group as it is; it must give every partition of every topic that somebody
subscribes to, to exactly one member that subscribes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.coordinator.group.consumer.assignment import Assignment
from penstock.coordinator.group.consumer.assignors.group import AssignedMember, GroupToAssign
from penstock.coordinator.group.consumer.assignors.range import assign_ranges
from penstock.coordinator.group.consumer.assignors.uniform import assign_uniformly

__all__ = ["AssignedMember", "Assignor", "GroupToAssign", "assignors_named"]

Assignor = Callable[[GroupToAssign], dict[str, Assignment]]

KNOWN: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}

CLASS_NAMES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""How a configuration that was written for Kafka may name them."""


def assignors_named(names: Iterable[str]) -> dict[str, Assignor]:
    """Those of `group.consumer.assignors`, the default first."""
    wanted = [CLASS_NAMES.get(name, name) for name in names]
    return {name: KNOWN[name] for name in wanted}
