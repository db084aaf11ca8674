"""Assignors of classic groups, by Kafka's names or Java class names, or your own.

`assignors_of` reads the setting `partition.assignment.strategy`. A new assignor is a row of `KNOWN`, an object or class
of the program (`assignor.Assignor`), or the import path of one.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.errors import BadConfiguration
from penstock.client.group.assignors.assignor import (
    NO_GENERATION,
    Assignor,
    GroupSubscription,
    MemberAssignment,
    MemberSubscription,
    ReceivedAssignment,
)
from penstock.client.group.assignors.ranges import RangeAssignor
from penstock.client.group.assignors.round_robin import RoundRobinAssignor
from penstock.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from penstock.client.importing import find

__all__ = [
    "NO_GENERATION",
    "Assignor",
    "CooperativeStickyAssignor",
    "GroupSubscription",
    "MemberAssignment",
    "MemberSubscription",
    "RangeAssignor",
    "ReceivedAssignment",
    "RoundRobinAssignor",
    "StickyAssignor",
    "assignors_of",
]

KNOWN: dict[str, type[Assignor]] = {
    kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def assignors_of(setting: object) -> tuple[Assignor, ...]:
    """In order of preference: the group uses the first one that most members prefer."""
    found = tuple(_assignor_of(each) for each in _entries(setting))
    if not found:
        raise BadConfiguration("partition.assignment.strategy names no assignor")
    names = [assignor.name for assignor in found]
    for name in names:
        if names.count(name) > 1:
            raise BadConfiguration(f"partition.assignment.strategy names the assignor {name!r} twice")
    return found


def is_cooperative(assignors: Iterable[Assignor]) -> bool:
    """Whether members may keep reading during a rebalance: only if every assignor in the list allows it."""
    return all(assignor.is_cooperative for assignor in assignors)


def _entries(setting: object) -> list[object]:
    if isinstance(setting, str):
        return [name for part in setting.split(",") if (name := part.strip())]
    if isinstance(setting, list | tuple):
        return list(setting)
    return [setting]


def _assignor_of(entry: object) -> Assignor:
    if isinstance(entry, Assignor):
        return entry
    if isinstance(entry, type) and issubclass(entry, Assignor):
        return entry()
    if isinstance(entry, str):
        return _named(entry)
    raise BadConfiguration(
        f"partition.assignment.strategy takes names and objects or classes of Assignor, not {entry!r}"
    )


def _named(name: str) -> Assignor:
    plain = name.removeprefix(JAVA_PACKAGE)
    for known, kind in KNOWN.items():
        if plain == kind.__name__ or plain.lower().replace("_", "-").replace(" ", "") in (
            known,
            known.replace("round", "round-"),
        ):
            return kind()
    if ":" in name or "." in name:
        return _assignor_of(find(name, what="assignor"))
    raise BadConfiguration(
        f"partition.assignment.strategy: unknown assignor {name!r}; known are {', '.join(KNOWN)}"
    )
