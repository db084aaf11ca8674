"""What the controller promised about topics, and the complaint when it breaks a promise.

A change that was acknowledged is there from then on; one that was refused is not. One whose answer was lost
may be either: until somebody looks there are several possible worlds. What is found must be one of them, and is
the only one from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.protocol.types import Uuid, uuid_text
from penstock.testing.simulation import BrokenPromise

Configs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Topic:
    partition_count: int
    configs: Configs
    topic_id: Uuid | None = None
    """None until somebody has seen it."""

    def with_config(self, name: str, value: str) -> Topic:
        return replace(self, configs=tuple(sorted({**dict(self.configs), name: value}.items())))


World = Topic | None
"""One topic in one possible world, where it may not be at all."""

Change = Callable[[World], World]


class Catalogue:
    def __init__(self) -> None:
        self.worlds: dict[str, list[World]] = {}

    def names(self) -> list[str]:
        return list(self.worlds)

    def present(self, name: str) -> World:
        """The topic as it is, where that is known; otherwise look first."""
        worlds = self.worlds.setdefault(name, [None])
        assert len(worlds) == 1, f"{name} was not looked at since an answer was lost"
        return worlds[0]

    def is_certain(self, name: str) -> bool:
        return len(self.worlds.setdefault(name, [None])) == 1

    def changed(self, name: str, change: Change) -> None:
        """The controller acknowledged it."""
        self.worlds[name] = _distinct([change(world) for world in self.worlds.setdefault(name, [None])])

    def may_have_changed(self, name: str, change: Change) -> None:
        """The answer was lost."""
        worlds = self.worlds.setdefault(name, [None])
        self.worlds[name] = _distinct([*worlds, *[change(world) for world in worlds]])

    def found(self, name: str, found: World) -> None:
        """Somebody looked."""
        worlds = self.worlds.setdefault(name, [None])
        if not any(_agree(world, found) for world in worlds):
            expected = " or ".join(map(_describe, worlds))
            raise BrokenPromise(f"topic {name} is {_describe(found)}, but must be {expected}")
        self.worlds[name] = [found]


def _agree(world: World, found: World) -> bool:
    if world is None or found is None:
        return world is found
    return world == (found if world.topic_id is not None else replace(found, topic_id=None))


def _distinct(worlds: list[World]) -> list[World]:
    return list(dict.fromkeys(worlds))


def _describe(world: World) -> str:
    if world is None:
        return "not there"
    topic_id = "any id" if world.topic_id is None else f"id {uuid_text(world.topic_id)}"
    settings = ", ".join(f"{name}={value}" for name, value in world.configs)
    return f"there with {topic_id}, {world.partition_count} partitions and settings [{settings}]"
