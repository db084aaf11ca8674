"""The topology while it is built: names that are stable from run to run, and types that are known or inferred.

A node without a given name is named after its operator and a counter: `filter-1`, `filter-2`. Adding a filter to a
program therefore does not rename its tables and their changelogs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.client.argument_types import quoted
from penstock.streams.compile import names
from penstock.streams.nouns import TopologyError
from penstock.streams.serdes import Serde, serde_of
from penstock.streams.stores import Store
from penstock.streams.topic_names import PART_ALLOWED, check_own_topic, is_part
from penstock.streams.topology import GlobalTable, Node, Topology, is_own_changelog

if TYPE_CHECKING:
    from penstock.streams.dsl.table import Table

N = TypeVar("N", bound=Node)
K = TypeVar("K")
V_co = TypeVar("V_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class State(Protocol[K, V_co]):
    """The state of a running table, for queries."""

    def get(self, key: K) -> V_co | None: ...

    def items(self) -> Iterator[tuple[K, V_co]]: ...

    def range(self, first: K | None = None, last: K | None = None) -> Iterator[tuple[K, V_co]]: ...

    def to_dataframe(self, spark: Any = None) -> Any: ...


class Running(Protocol):
    """Runs a topology and provides the state of its stores."""

    @property
    def name(self) -> str | None: ...

    def state(self, name: str) -> State[Any, Any]: ...


class Graph:
    """Adds nodes to a topology."""

    def __init__(self, owner: Running) -> None:
        self.owner = owner
        self.topology = Topology()
        self.tables: dict[str, Table[Any, Any]] = {}
        self._stores: dict[str, Store[Any, Any]] = {}
        self._counts: Counter[str] = Counter()
        self._names: set[str] = set()

    def name(self, operator: str, given: str | None) -> str:
        """The name of the next node: the given one, or a generated one."""
        if given is None:
            while (name := self._next(operator)) in self._names:
                pass
        else:
            name = given
        if not is_part(name):
            raise TopologyError(f"{quoted(name)} is not a valid name for {operator}: {PART_ALLOWED}")
        if name in self._names:
            raise TopologyError(f"the name {name} is already used: names must be unique within an app")
        self._names.add(name)
        return name

    def add(self, node: N) -> N:
        for parent in node.parents:
            if not any(known is parent for known in self.topology.nodes):
                raise TopologyError(f"{parent.name} and {node.name} belong to different apps")
        self._check_changelog(node)
        self.topology.nodes.append(node)
        return node

    def add_stores(self, stores: Iterable[Store[Any, Any]]) -> None:
        """Processors may share a store by naming the same object. Another store of the same name is a mistake."""
        if isinstance(stores, str | bytes | Store) or not isinstance(stores, Iterable):
            raise TopologyError(f"stores must be a list: stores=[...], not {quoted(stores)}")
        for store in stores:
            if not isinstance(store, Store):
                raise TopologyError(
                    f"{store!r} is not a store: create one, for example with key_value_store(...)"
                )
            if self._stores.setdefault(store.name, store) is not store:
                raise TopologyError(f"two stores are called {store.name}")
            if store.name in self.tables:
                raise TopologyError(f"a table is already called {store.name}")
            if store.logged and self.owner.name is not None:
                check_own_topic(names.changelog(self.owner.name, store.name), f"the store {store.name}")

    def _check_changelog(self, node: Node) -> None:
        """A table read from a topic uses that topic as its changelog. Other tables get a changelog named after the
        app and the store."""
        store = getattr(node, "store", None)
        if store is None or self.owner.name is None or isinstance(node, GlobalTable):
            return
        if not is_own_changelog(node):
            check_own_topic(names.changelog(self.owner.name, store), f"the table {store}")

    def _next(self, operator: str) -> str:
        self._counts[operator] += 1
        return f"{operator}-{self._counts[operator]}"


def known(spec: Any) -> Serde[Any] | None:
    """The serde of a given or inferred type, or None."""
    return None if spec is None else serde_of(spec)


def inferred(kind: Any) -> Serde[Any] | None:
    """The serde of an annotated type; None if that type has no serde."""
    try:
        return known(kind)
    except TopologyError:
        return None


def need_key(node: Node, what: str) -> Serde[Any]:
    return _need(node.key, "key", node, what)


def need_value(node: Node, what: str) -> Serde[Any]:
    return _need(node.value, "value", node, what)


def _need(serde: Serde[Any] | None, part: str, node: Node, what: str) -> Serde[Any]:
    if serde is not None:
        return serde
    raise TopologyError(
        f"{what} stores {part}s in a topic, and the type of the {part}s of {node.name} is not known: "
        f"annotate the return type of its function, or pass {part}=... there"
    )
