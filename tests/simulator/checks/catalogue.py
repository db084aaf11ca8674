"""What the controller acknowledged about topics, and the check that it holds.

An acknowledged change is in effect, a rejected one is not. If the response was lost, both are possible: the catalogue
keeps all possible states of a topic. The state that a client finds must be one of them; it is the only one from then
on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.protocol.types import Uuid, uuid_text
from simulator.simulation import BrokenPromise

Configs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Topic:
    partition_count: int
    configs: Configs
    topic_id: Uuid | None = None
    """None until a client has seen it."""

    def with_config(self, name: str, value: str) -> Topic:
        return replace(self, configs=tuple(sorted({**dict(self.configs), name: value}.items())))


TopicState = Topic | None
"""One possible state of a topic; None: it does not exist."""

Change = Callable[[TopicState], TopicState]


class Catalogue:
    def __init__(self) -> None:
        self.states: dict[str, list[TopicState]] = {}

    def names(self) -> list[str]:
        return list(self.states)

    def present(self, name: str) -> TopicState:
        """The state of the topic. It must be certain."""
        states = self.states.setdefault(name, [None])
        assert len(states) == 1, f"{name} was not looked up since a response was lost"
        return states[0]

    def is_certain(self, name: str) -> bool:
        return len(self.states.setdefault(name, [None])) == 1

    def changed(self, name: str, change: Change) -> None:
        """The controller acknowledged the change."""
        self.states[name] = _distinct([change(state) for state in self.states.setdefault(name, [None])])

    def may_have_changed(self, name: str, change: Change) -> None:
        """The response was lost."""
        states = self.states.setdefault(name, [None])
        self.states[name] = _distinct([*states, *[change(state) for state in states]])

    def found(self, name: str, found: TopicState) -> None:
        """A client looked up the topic."""
        states = self.states.setdefault(name, [None])
        if not any(_agree(state, found) for state in states):
            expected = " or ".join(map(_describe, states))
            raise BrokenPromise(f"topic {name} is {_describe(found)}, but must be {expected}")
        self.states[name] = [found]


def _agree(state: TopicState, found: TopicState) -> bool:
    if state is None or found is None:
        return state is found
    return state == (found if state.topic_id is not None else replace(found, topic_id=None))


def _distinct(states: list[TopicState]) -> list[TopicState]:
    return list(dict.fromkeys(states))


def _describe(state: TopicState) -> str:
    if state is None:
        return "not there"
    topic_id = "any id" if state.topic_id is None else f"id {uuid_text(state.topic_id)}"
    settings = ", ".join(f"{name}={value}" for name, value in state.configs)
    return f"there with {topic_id}, {state.partition_count} partitions and settings [{settings}]"
