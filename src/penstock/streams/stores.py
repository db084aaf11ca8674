"""State stores, as a program declares them. Tests keep the state in dicts, production in Spark.

A store's name is unique in the topology. Its changes are written to `<application.id>-<name>-changelog`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from penstock.client.argument_types import quoted
from penstock.streams.nouns import Duration, TopologyError, milliseconds
from penstock.streams.serdes import Serde, Spec, serde_of
from penstock.streams.topic_names import PART_ALLOWED, is_part

K = TypeVar("K")
V = TypeVar("V")

Kind = Literal["key-value", "window", "session"]


@dataclass(frozen=True)
class Store(Generic[K, V]):
    """A state store.

    `key-value` maps a key to a value. `window` maps a key and the start of a window of `window_ms` to a value.
    `session` maps a key and the start and end of a session to a value. Window and session stores delete rows older
    than `retention_ms` behind stream time. `key` is the serde of the key without its window.
    """

    name: str
    kind: Kind
    key: Serde[K]
    value: Serde[V]
    window_ms: int | None = None
    retention_ms: int | None = None
    logged: bool = True
    """Whether its changes are written to a changelog topic."""


def key_value_store(name: str, *, key: Spec[K], value: Spec[V], logged: bool = True) -> Store[K, V]:
    """A store that a processor reads and writes by key."""
    return Store(_named(name), "key-value", serde_of(key), serde_of(value), logged=logged)


def window_store(
    name: str, *, key: Spec[K], value: Spec[V], window: Duration, retention: Duration, logged: bool = True
) -> Store[K, V]:
    """A store of values by key and window start. Rows are kept for `retention` behind stream time."""
    window_ms = milliseconds(window, "the size of a window", at_least=1)
    retention_ms = milliseconds(retention, "the retention", at_least=1)
    if retention_ms < window_ms:
        raise TopologyError(f"the retention of store {name} must be at least as long as its window")
    return Store(_named(name), "window", serde_of(key), serde_of(value), window_ms, retention_ms, logged)


def session_store(
    name: str, *, key: Spec[K], value: Spec[V], retention: Duration, logged: bool = True
) -> Store[K, V]:
    """A store of values by key and session."""
    retention_ms = milliseconds(retention, "the retention", at_least=1)
    return Store(_named(name), "session", serde_of(key), serde_of(value), None, retention_ms, logged)


def _named(name: Any) -> str:
    if not is_part(name):
        raise TopologyError(f"{quoted(name)} is not a valid store name: {PART_ALLOWED}")
    return str(name)
