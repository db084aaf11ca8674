"""Joins of two tables: by key, or by a foreign key in the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.streams.dsl.graph import Graph, inferred, known, need_key, need_value
from penstock.streams.dsl.stream_joins import same_keys
from penstock.streams.functions import function_of, result_type
from penstock.streams.nouns import TopologyError
from penstock.streams.serdes import Spec
from penstock.streams.topology import ForeignKeyJoin, JoinKind, Node, TableJoin

if TYPE_CHECKING:
    from penstock.streams.dsl.table import Table

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")
F = TypeVar("F")


class TableJoins(Generic[K, V]):
    """The joins of a table with another table."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node

    @property
    def name(self) -> str:
        return self._node.name

    @overload
    def join(
        self,
        other: Table[K, W],
        joiner: Callable[[V, W], R],
        *,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K, W],
        joiner: Callable[[K, V, W], R],
        *,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[F, W],
        joiner: Callable[[V, W], R],
        *,
        on: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[F, W],
        joiner: Callable[[K, V, W], R],
        *,
        on: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    def join(
        self,
        other: Table[Any, Any],
        joiner: Callable[..., Any],
        *,
        on: Callable[..., Any] | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Join the keys that both tables have. `on` returns a key of the other table for each row of this one (a
        foreign key); the result then has the rows of this table whose foreign key the other table has."""
        return self._join("inner", other, joiner, on, value, name)

    @overload
    def left_join(
        self,
        other: Table[K, W],
        joiner: Callable[[V, W | None], R],
        *,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[F, W],
        joiner: Callable[[V, W | None], R],
        *,
        on: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[F, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        on: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    def left_join(
        self,
        other: Table[Any, Any],
        joiner: Callable[..., Any],
        *,
        on: Callable[..., Any] | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Like `join`, with all keys of this table and None for rows the other table lacks."""
        return self._join("left", other, joiner, on, value, name)

    @overload
    def outer_join(
        self,
        other: Table[K, W],
        joiner: Callable[[V | None, W | None], R],
        *,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def outer_join(
        self,
        other: Table[K, W],
        joiner: Callable[[K, V | None, W | None], R],
        *,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    def outer_join(
        self,
        other: Table[Any, Any],
        joiner: Callable[..., Any],
        *,
        value: Any = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Like `join`, with all keys of both tables and None for rows one of them lacks."""
        return self._join("outer", other, joiner, None, value, name)

    def _join(
        self,
        kind: JoinKind,
        other: Any,
        joiner: Callable[..., Any],
        on: Callable[..., Any] | None,
        value: Any,
        name: str | None,
    ) -> Table[Any, Any]:
        from penstock.streams.dsl.table import Table

        if not isinstance(other, Table):
            raise TopologyError(f"a table joins a table, not {other!r}")
        operator = "foreign-key-join" if on is not None else "table-join"
        made = self._graph.name(operator if kind == "inner" else f"{kind}-{operator}", name)
        keys = need_key(self._node, made)
        other_keys = need_key(other._node, made)
        need_value(self._node, made)
        need_value(other._node, made)
        values = known(value) or inferred(result_type(joiner))
        wrapped = function_of(joiner, made, values=2)
        parents = (self._node, other._node)
        node: Node
        if on is None:
            same_keys(keys, other_keys, made)
            node = TableJoin(
                name=made, parents=parents, key=keys, value=values, kind=kind, joiner=wrapped, store=name
            )
        else:
            assert kind != "outer"
            node = ForeignKeyJoin(
                name=made,
                parents=parents,
                key=keys,
                value=values,
                kind=kind,
                selector=function_of(on, f"`on` of {made}"),
                joiner=wrapped,
                store=name,
            )
        if name is not None:
            need_value(node, name)
        return Table(self._graph, self._graph.add(node))
