"""Tables: the last value of each key and its changes. A global table is a full copy of a table on every worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.streams.dsl.graph import Graph, State, inferred, known, need_key, need_value
from penstock.streams.dsl.suppression import Suppression, grace_ms
from penstock.streams.dsl.table_joins import TableJoins
from penstock.streams.functions import function_of, pair_types, result_type
from penstock.streams.nouns import TopologyError
from penstock.streams.processors import Transformer
from penstock.streams.serdes import Serde, Spec, serde_of
from penstock.streams.stores import Store
from penstock.streams.topology import (
    GlobalTable as GlobalNode,
)
from penstock.streams.topology import (
    Node,
    Suppress,
    TableAggregate,
    TableFilter,
    TableMap,
    TableTransform,
    ToStream,
    history_of,
)

if TYPE_CHECKING:
    from penstock.streams.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
A = TypeVar("A")


class Table(TableJoins[K, V]):
    """Keys of type K, each with its last value of type V."""

    def __init__(self, graph: Graph, node: Node) -> None:
        super().__init__(graph, node)
        store = getattr(node, "store", None)
        if store is not None:
            graph.tables[store] = self

    @overload
    def filter(self, predicate: Callable[[V], object], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Table[K, V]: ...
    def filter(self, predicate: Callable[..., object], *, name: str | None = None) -> Table[K, V]:
        """Keep the keys whose value satisfies `predicate`. With a name the result can be queried."""
        return self._filter(predicate, "table-filter", name, negated=False)

    @overload
    def filter_not(self, predicate: Callable[[V], object], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Table[K, V]: ...
    def filter_not(self, predicate: Callable[..., object], *, name: str | None = None) -> Table[K, V]:
        """Drop the keys whose value satisfies `predicate`."""
        return self._filter(predicate, "table-filter-not", name, negated=True)

    @overload
    def map_values(
        self, function: Callable[[V], V2], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Table[K, V2]: ...
    @overload
    def map_values(
        self, function: Callable[[K, V], V2], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Table[K, V2]: ...
    def map_values(
        self, function: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> Table[K, Any]:
        """Replace each value. With a name the result can be queried."""
        made = self._graph.name("table-map-values", name)
        values = known(value) or inferred(result_type(function))
        node = TableMap(
            name=made,
            parents=(self._node,),
            key=self._node.key,
            value=values,
            function=function_of(function, "map_values"),
            store=name,
        )
        if name is not None:
            need_value(node, name)
        return Table(self._graph, self._graph.add(node))

    def transform_values(
        self,
        transformer: Callable[[], Transformer[K, V, V2]],
        *,
        stores: Sequence[Store[Any, Any]] = (),
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Table[K, V2]:
        """Replace each value with a transformer that may keep state: a class, or a function that creates one. It is
        also called for deleted keys, with None as the value. With a name the result can be queried."""
        if not callable(transformer):
            raise TopologyError(
                f"transform_values takes a Transformer class, or a function that creates one, not {transformer!r}"
            )
        self._graph.add_stores(stores)
        node = TableTransform(
            name=self._graph.name("transform-values", name),
            parents=(self._node,),
            key=self._node.key,
            value=known(value) or inferred(result_type(getattr(transformer, "transform", transformer))),
            processor=transformer,
            stores=tuple(stores),
            store=name,
        )
        if name is not None:
            need_value(node, name)
        return Table(self._graph, self._graph.add(node))

    @overload
    def to_stream(self, *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def to_stream(
        self, selector: Callable[[V], K2], *, key: Spec[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    @overload
    def to_stream(
        self, selector: Callable[[K, V], K2], *, key: Spec[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    def to_stream(
        self, selector: Callable[..., Any] | None = None, *, key: Any = None, name: str | None = None
    ) -> Stream[Any, V]:
        """Turn each change into a record with the new value, or None for a deleted key. `selector` returns another
        key."""
        from penstock.streams.dsl.stream import Stream

        keys = self._node.key
        if selector is not None:
            keys = known(key) or inferred(result_type(selector))
        node = ToStream(
            name=self._graph.name("to-stream", name),
            parents=(self._node,),
            key=keys,
            value=self._node.value,
            selector=None if selector is None else function_of(selector, "to_stream"),
        )
        return Stream(self._graph, self._graph.add(node))

    def to(
        self,
        topic: str | Callable[[V], str] | Callable[[K, V], str],
        *,
        key: Spec[K] | None = None,
        value: Spec[V] | None = None,
        partition: Callable[[V, int], int] | Callable[[K, V, int], int] | None = None,
        name: str | None = None,
    ) -> None:
        """Write each change to a topic; the same as `to_stream().to(...)`."""
        self.to_stream().to(topic, key=key, value=value, partition=partition, name=name)

    @overload
    def group_by(
        self,
        selector: Callable[[V], tuple[K2, V2]],
        *,
        key: Spec[K2] | None = None,
        value: Spec[V2] | None = None,
    ) -> GroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Spec[K2] | None = None,
        value: Spec[V2] | None = None,
    ) -> GroupedTable[K2, V2]: ...
    def group_by(
        self, selector: Callable[..., Any], *, key: Any = None, value: Any = None
    ) -> GroupedTable[Any, Any]:
        """Group the rows by the key that `selector` returns. It returns `(key, value)`."""
        key_kind, value_kind = pair_types(result_type(selector))
        return GroupedTable(
            self._graph,
            self._node,
            selector,
            known(key) or inferred(key_kind),
            known(value) or inferred(value_kind),
        )

    def suppress(self, suppression: Suppression, *, name: str | None = None) -> Table[K, V]:
        """Emit fewer changes: `until_window_closes()` or `until_time_limit(seconds)`."""
        if not isinstance(suppression, Suppression):
            raise TopologyError(
                f"suppress takes until_window_closes() or until_time_limit(seconds), not {suppression!r}"
            )
        if history_of(self._node) is not None:
            raise TopologyError("a versioned table cannot be suppressed: its history would have gaps")
        made = self._graph.name("suppress", name)
        limit_ms = suppression.limit_ms
        if suppression.until_window_closes:
            limit_ms = grace_ms(self._node, made)
        node = Suppress(
            name=made,
            parents=(self._node,),
            key=need_key(self._node, made),
            value=need_value(self._node, made),
            until_window_closes=suppression.until_window_closes,
            limit_ms=limit_ms,
            max_records=suppression.max_records,
            max_bytes=suppression.max_bytes,
            full=suppression.full,
        )
        return Table(self._graph, self._graph.add(node))

    @property
    def store(self) -> str | None:
        """The name of its state store; None if its state is not kept."""
        return getattr(self._node, "store", None)

    def get(self, key: K) -> V | None:
        """The current value of a key in the running app."""
        return self._state().get(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """All current rows of the running app."""
        return self._state().items()

    def range(self, first: K | None = None, last: K | None = None) -> Iterator[tuple[K, V]]:
        """The rows from the key `first` to the key `last`, both included, in the order of their serialized keys."""
        return self._state().range(first, last)

    def to_dataframe(self, spark: Any = None) -> Any:
        """The current rows as a Spark DataFrame, of the given session or of the active one."""
        return self._state().to_dataframe(spark)

    def _state(self) -> State[K, V]:
        if self.store is None:
            raise TopologyError(f"{self.name} has no state store: give it a name=... to query it")
        return self._graph.owner.state(self.store)

    def _filter(
        self, predicate: Callable[..., object], operator: str, name: str | None, *, negated: bool
    ) -> Table[K, V]:
        node = TableFilter(
            name=self._graph.name(operator, name),
            parents=(self._node,),
            key=self._node.key,
            value=self._node.value if name is None else need_value(self._node, name),
            function=function_of(predicate, operator),
            negated=negated,
            store=name,
        )
        return Table(self._graph, self._graph.add(node))


class GroupedTable(Generic[K, V]):
    """The rows of a table grouped by other keys, to be aggregated into another table."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        selector: Callable[..., Any],
        key: Serde[Any] | None,
        value: Serde[Any] | None,
    ) -> None:
        self._graph = graph
        self._node = node
        self._selector = function_of(selector, "group_by")
        self._key = key
        self._value = value

    def count(self, *, name: str | None = None) -> Table[K, int]:
        """Count the rows of each key."""
        return self._aggregate("count", serde_of(int), name, None, None, None)

    @overload
    def reduce(
        self, adder: Callable[[V, V], V], subtractor: Callable[[V, V], V], *, name: str | None = None
    ) -> Table[K, V]: ...
    @overload
    def reduce(
        self, adder: Callable[[K, V, V], V], subtractor: Callable[[K, V, V], V], *, name: str | None = None
    ) -> Table[K, V]: ...
    def reduce(
        self, adder: Callable[..., V], subtractor: Callable[..., V], *, name: str | None = None
    ) -> Table[K, V]:
        """Combine values with `adder(aggregate, value)`. `subtractor` removes the old value of a changed row first."""
        return self._aggregate("reduce", self._value, name, None, adder, subtractor)

    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        adder: Callable[[A, V], A],
        subtractor: Callable[[A, V], A],
        *,
        value: Spec[A] | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        adder: Callable[[K, A, V], A],
        subtractor: Callable[[K, A, V], A],
        *,
        value: Spec[A] | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    def aggregate(
        self,
        initial: Callable[[], Any],
        adder: Callable[..., Any],
        subtractor: Callable[..., Any],
        *,
        value: Any = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Like `reduce`, starting with `initial()`."""
        from penstock.streams.dsl.grouped import aggregate_serde

        serde = aggregate_serde(value, adder, initial)
        return self._aggregate("aggregate", serde, name, initial, adder, subtractor)

    def _aggregate(
        self,
        kind: Literal["count", "reduce", "aggregate"],
        value: Serde[Any] | None,
        name: str | None,
        initial: Callable[[], Any] | None,
        adder: Callable[..., Any] | None,
        subtractor: Callable[..., Any] | None,
    ) -> Table[Any, Any]:
        made = self._graph.name(f"table-{kind}", name)
        for serde, part in ((self._key, "key"), (self._value, "value")):
            if serde is None:
                raise TopologyError(
                    f"{made} stores its rows in a topic, and the type of the {part}s of its group_by is not known: "
                    f"annotate its function with `-> tuple[..., ...]`, or give {part}=... there"
                )
        node = TableAggregate(
            name=made,
            parents=(self._node,),
            key=self._key,
            value=value,
            kind=kind,
            selector=self._selector,
            selected=self._value,
            store=made,
            initial=initial,
            adder=None if adder is None else function_of(adder, "adder", values=2),
            subtractor=None if subtractor is None else function_of(subtractor, "subtractor", values=2),
        )
        return Table(self._graph, self._graph.add(node))


class GlobalTable(Generic[K, V]):
    """A table that streams look up by any key: `orders.join(countries, ..., on=...)`."""

    def __init__(self, graph: Graph, node: GlobalNode) -> None:
        self._graph = graph
        self._node = node

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def store(self) -> str:
        return self._node.store
