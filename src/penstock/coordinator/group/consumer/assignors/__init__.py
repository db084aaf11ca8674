"""The server-side assignors, as in Kafka: `uniform` and `range`.

An assignor is a function of the group. It must assign every partition of every subscribed topic to exactly one member
that subscribes to it.
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
"""The names of Kafka's classes, for configurations written for Kafka."""


def assignors_named(names: Iterable[str]) -> dict[str, Assignor]:
    """The assignors of `group.consumer.assignors`, the default first."""
    wanted = [CLASS_NAMES.get(name, name) for name in names]
    return {name: KNOWN[name] for name in wanted}
