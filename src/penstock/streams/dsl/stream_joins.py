"""Joins of a stream: with another stream within a window, with a table, or with a global table.

A joiner takes both values, or the key and both values. With `left_join` and `outer_join` the value of a missing side
is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from penstock.streams.dsl.graph import inferred, known, need_key, need_value
from penstock.streams.dsl.stateless import Stateless
from penstock.streams.functions import function_of, result_type
from penstock.streams.nouns import Duration, TopologyError, milliseconds
from penstock.streams.serdes import Serde, Spec
from penstock.streams.topology import GlobalJoin, JoinKind, StreamJoin, StreamTableJoin, history_of
from penstock.streams.windows import JoinWindows

if TYPE_CHECKING:
    from penstock.streams.dsl.stream import Stream
    from penstock.streams.dsl.table import GlobalTable, Table

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")
G = TypeVar("G")


class StreamJoins(Stateless[K, V]):
    """The joins of a stream."""

    @overload
    def join(
        self,
        other: Stream[K, W],
        joiner: Callable[[V, W], R],
        *,
        within: JoinWindows,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: Stream[K, W],
        joiner: Callable[[K, V, W], R],
        *,
        within: JoinWindows,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K, W],
        joiner: Callable[[V, W], R],
        *,
        grace: Duration | None = None,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K, W],
        joiner: Callable[[K, V, W], R],
        *,
        grace: Duration | None = None,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalTable[G, W],
        joiner: Callable[[V, W], R],
        *,
        on: Callable[[V], G] | Callable[[K, V], G],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalTable[G, W],
        joiner: Callable[[K, V, W], R],
        *,
        on: Callable[[V], G] | Callable[[K, V], G],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def join(
        self,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalTable[Any, Any],
        joiner: Callable[..., Any],
        *,
        within: JoinWindows | None = None,
        on: Callable[..., Any] | None = None,
        grace: Duration | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Join records that have the same key.

        Two streams join records that are `within` a window. A table joins each record with the table's current value
        for its key. A global table is looked up by the key that `on` returns. A versioned table joins the value it
        had at the record's time; with `grace` the record waits that long for late changes of the table.
        """
        return self._join("inner", other, joiner, within, on, grace, value, name)

    @overload
    def left_join(
        self,
        other: Stream[K, W],
        joiner: Callable[[V, W | None], R],
        *,
        within: JoinWindows,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: Stream[K, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        within: JoinWindows,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K, W],
        joiner: Callable[[V, W | None], R],
        *,
        grace: Duration | None = None,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        grace: Duration | None = None,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[G, W],
        joiner: Callable[[V, W | None], R],
        *,
        on: Callable[[V], G] | Callable[[K, V], G],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[G, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        on: Callable[[V], G] | Callable[[K, V], G],
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def left_join(
        self,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalTable[Any, Any],
        joiner: Callable[..., Any],
        *,
        within: JoinWindows | None = None,
        on: Callable[..., Any] | None = None,
        grace: Duration | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Like `join`, and also emits this side's records without a match, with None for the other side."""
        return self._join("left", other, joiner, within, on, grace, value, name)

    @overload
    def outer_join(
        self,
        other: Stream[K, W],
        joiner: Callable[[V | None, W | None], R],
        *,
        within: JoinWindows,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: Stream[K, W],
        joiner: Callable[[K, V | None, W | None], R],
        *,
        within: JoinWindows,
        value: Spec[R] | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def outer_join(
        self,
        other: Stream[Any, Any],
        joiner: Callable[..., Any],
        *,
        within: JoinWindows,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Like `join`, and also emits the records of either side without a match, with None for the other side."""
        return self._join("outer", other, joiner, within, None, None, value, name)

    def _join(
        self,
        kind: JoinKind,
        other: Any,
        joiner: Callable[..., Any],
        within: JoinWindows | None,
        on: Callable[..., Any] | None,
        grace: Duration | None,
        value: Any,
        name: str | None,
    ) -> Stream[K, Any]:
        from penstock.streams.dsl.stream import Stream
        from penstock.streams.dsl.table import GlobalTable, Table

        if grace is not None and not isinstance(other, Table):
            raise TopologyError(
                "grace applies to joins with a versioned table only; `within` has a grace of its own"
            )
        if isinstance(other, Stream):
            return self._join_stream(kind, other, joiner, within, value, name)
        if within is not None:
            raise TopologyError("a join with a table has no window: remove `within`")
        if kind == "outer":
            raise TopologyError("a stream cannot outer-join a table: use left_join")
        if isinstance(other, Table):
            if on is not None:
                raise TopologyError(
                    "a stream joins a table by key: use select_key first, or a global table with `on`"
                )
            return self._join_table(kind, other, joiner, grace, value, name)
        if isinstance(other, GlobalTable):
            if on is None:
                raise TopologyError("a join with a global table needs `on`, which returns the key to look up")
            return self._join_global(kind, other, joiner, on, value, name)
        raise TopologyError(f"a stream joins a stream, a table or a global table, not {other!r}")

    def _join_stream(
        self,
        kind: JoinKind,
        other: Stream[Any, Any],
        joiner: Callable[..., Any],
        within: JoinWindows | None,
        value: Any,
        name: str | None,
    ) -> Stream[Any, Any]:
        if not isinstance(within, JoinWindows):
            raise TopologyError(
                "a join of two streams needs a window: join(other, joiner, within=within(seconds))"
            )
        made = self._graph.name(f"{_PREFIX[kind]}join", name)
        keys = need_key(self._node, made)
        same_keys(keys, need_key(other._node, made), made)
        need_value(self._node, made)
        need_value(other._node, made)
        return self._stream(
            StreamJoin(
                name=made,
                parents=(self._node, other._node),
                key=keys,
                value=known(value) or inferred(result_type(joiner)),
                kind=kind,
                within=within,
                joiner=function_of(joiner, made, values=2),
            )
        )

    def _join_table(
        self,
        kind: Literal["inner", "left"],
        other: Table[Any, Any],
        joiner: Callable[..., Any],
        grace: Duration | None,
        value: Any,
        name: str | None,
    ) -> Stream[Any, Any]:
        made = self._graph.name(f"{_PREFIX[kind]}join", name)
        grace_ms = None if grace is None else milliseconds(grace, "the grace")
        if grace_ms is not None:
            history_ms = history_of(other._node)
            if history_ms is None:
                raise TopologyError(f"{made}: grace needs a versioned table: give the table history=...")
            if history_ms < grace_ms:
                raise TopologyError(
                    f"{made}: the history of {other.name} must be at least as long as the grace"
                )
        keys = need_key(self._node, made)
        same_keys(keys, need_key(other._node, made), made)
        need_value(self._node, made)
        need_value(other._node, made)
        return self._stream(
            StreamTableJoin(
                name=made,
                parents=(self._node, other._node),
                key=keys,
                value=known(value) or inferred(result_type(joiner)),
                kind=kind,
                joiner=function_of(joiner, made, values=2),
                grace_ms=grace_ms,
            )
        )

    def _join_global(
        self,
        kind: Literal["inner", "left"],
        other: GlobalTable[Any, Any],
        joiner: Callable[..., Any],
        on: Callable[..., Any],
        value: Any,
        name: str | None,
    ) -> Stream[Any, Any]:
        made = self._graph.name(f"global-{_PREFIX[kind]}join", name)
        return self._stream(
            GlobalJoin(
                name=made,
                parents=(self._node, other._node),
                key=self._node.key,
                value=known(value) or inferred(result_type(joiner)),
                kind=kind,
                selector=function_of(on, f"`on` of {made}"),
                joiner=function_of(joiner, made, values=2),
            )
        )


_PREFIX = {"inner": "", "left": "left-", "outer": "outer-"}


def same_keys(left: Serde[Any], right: Serde[Any], what: str) -> None:
    """Keys are compared by their bytes, so both sides must serialize them alike."""
    if not left.writes_like(right):
        raise TopologyError(f"{what}: keys of type {left.name} and {right.name} never match")
