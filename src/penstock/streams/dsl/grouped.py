"""Streams grouped by key, to be aggregated into a table: over all time, in windows, or several streams together.

    clicks.group_by_key().windowed_by(tumbling(60)).count(name="per-minute")

A fold takes the aggregate and a value and returns the next aggregate, as in `functools.reduce`. It may take the key
as its first argument. `name` is the name of the table, its store and its changelog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.streams.dsl.graph import Graph, inferred, known, need_key, need_value
from penstock.streams.functions import Function, function_of, result_type
from penstock.streams.nouns import TopologyError, Windowed
from penstock.streams.serdes import Serde, Spec, serde_of, windowed_serde
from penstock.streams.topology import Aggregate, Node
from penstock.streams.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from penstock.streams.dsl.table import Table

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
B = TypeVar("B")

Emit = Literal["update", "close"]


class _Folding(Generic[K, V]):
    """Common to grouped and windowed streams. K is the key of the table."""

    def __init__(
        self, graph: Graph, node: Node, windows: Windows | None = None, emit: Emit = "update"
    ) -> None:
        self._graph = graph
        self._node = node
        self._windows = windows
        self._emit = emit

    def count(self, *, name: str | None = None) -> Table[K, int]:
        """Count the records of each key."""
        return _table(
            self._graph, (self._node,), "count", name, self._windows, self._emit, value=serde_of(int)
        )

    @overload
    def reduce(self, fold: Callable[[V, V], V], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def reduce(self, fold: Callable[[K, V, V], V], *, name: str | None = None) -> Table[K, V]: ...
    def reduce(self, fold: Callable[..., V], *, name: str | None = None) -> Table[K, V]:
        """Combine the values of each key in pairs: `reduce(max)`."""
        folds = (function_of(fold, "reduce", values=2),)
        value = need_value(self._node, "reduce")
        return _table(
            self._graph, (self._node,), "reduce", name, self._windows, self._emit, value=value, folds=folds
        )

    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        fold: Callable[[A, V], A],
        *,
        merger: Callable[[A, A], A] | None = None,
        value: Spec[A] | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        fold: Callable[[Any, A, V], A],
        *,
        merger: Callable[[A, A], A] | None = None,
        value: Spec[A] | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    def aggregate(
        self,
        initial: Callable[[], Any],
        fold: Callable[..., Any],
        *,
        merger: Callable[[Any, Any], Any] | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Combine the values of each key, starting with `initial()`. Session windows need a `merger`."""
        serde = aggregate_serde(value, fold, initial)
        folds = (function_of(fold, "aggregate", values=2),)
        need_value(self._node, "aggregate")
        return _table(
            self._graph,
            (self._node,),
            "aggregate",
            name,
            self._windows,
            self._emit,
            value=serde,
            folds=folds,
            initial=initial,
            merger=merger,
        )


class GroupedStream(_Folding[K, V]):
    """The records of a stream, by key."""

    def windowed_by(self, windows: Windows, *, emit: Emit = "update") -> WindowedStream[K, V]:
        """Aggregate within windows: `tumbling`, `hopping`, `sliding`, `session` or `unlimited`.

        With emit="close" each window is emitted once, when it closes, instead of after every record.
        """
        return WindowedStream(self._graph, self._node, _checked(windows, emit), emit)

    @overload
    def cogroup(self, fold: Callable[[A, V], A]) -> CogroupedStream[K, A]: ...
    @overload
    def cogroup(self, fold: Callable[[K, A, V], A]) -> CogroupedStream[K, A]: ...
    def cogroup(self, fold: Callable[..., Any]) -> CogroupedStream[K, Any]:
        """Aggregate several grouped streams into one table, each with a fold of its own. This is the first of them."""
        need_value(self._node, "cogroup")
        return CogroupedStream(self._graph, (self._node,), (function_of(fold, "cogroup", values=2),))


class WindowedStream(_Folding[Windowed[K], V]):
    """The records of a stream, by key and window."""


class _Cogrouped(Generic[K, A]):
    def __init__(
        self,
        graph: Graph,
        nodes: tuple[Node, ...],
        folds: tuple[Function, ...],
        windows: Windows | None = None,
        emit: Emit = "update",
    ) -> None:
        self._graph = graph
        self._nodes = nodes
        self._folds = folds
        self._windows = windows
        self._emit = emit

    def aggregate(
        self,
        initial: Callable[[], A],
        *,
        merger: Callable[[A, A], A] | None = None,
        value: Spec[A] | None = None,
        name: str | None = None,
    ) -> Table[K, A]:
        """Combine all streams, starting with `initial()`."""
        return _table(
            self._graph,
            self._nodes,
            "aggregate",
            name,
            self._windows,
            self._emit,
            value=aggregate_serde(value, self._folds[0].call, initial),
            folds=self._folds,
            initial=initial,
            merger=merger,
        )


class CogroupedStream(_Cogrouped[K, A]):
    """Several grouped streams with the same key type, each with its fold."""

    @overload
    def cogroup(self, other: GroupedStream[K, B], fold: Callable[[A, B], A]) -> CogroupedStream[K, A]: ...
    @overload
    def cogroup(self, other: GroupedStream[K, B], fold: Callable[[K, A, B], A]) -> CogroupedStream[K, A]: ...
    def cogroup(self, other: GroupedStream[K, Any], fold: Callable[..., Any]) -> CogroupedStream[K, A]:
        """Add another stream."""
        need_value(other._node, "cogroup")
        return CogroupedStream(
            self._graph,
            (*self._nodes, other._node),
            (*self._folds, function_of(fold, "cogroup", values=2)),
        )

    def windowed_by(self, windows: Windows, *, emit: Emit = "update") -> WindowedCogroupedStream[K, A]:
        return WindowedCogroupedStream(self._graph, self._nodes, self._folds, _checked(windows, emit), emit)


class WindowedCogroupedStream(_Cogrouped[Windowed[K], A]):
    """Several grouped streams within windows."""


def _table(
    graph: Graph,
    parents: tuple[Node, ...],
    kind: Literal["count", "reduce", "aggregate"],
    name: str | None,
    windows: Windows | None,
    emit: Emit,
    *,
    value: Serde[Any],
    folds: tuple[Function, ...] = (),
    initial: Callable[[], Any] | None = None,
    merger: Callable[[Any, Any], Any] | None = None,
) -> Table[Any, Any]:
    from penstock.streams.dsl.stream_joins import same_keys
    from penstock.streams.dsl.table import Table

    made = graph.name("cogroup" if len(parents) > 1 else kind, name)
    key = need_key(parents[0], made)
    for parent in parents[1:]:
        same_keys(key, need_key(parent, made), made)
    if isinstance(windows, SessionWindows) and kind == "aggregate" and merger is None:
        raise TopologyError(f"{made}: session windows need a `merger` for sessions that meet")
    if merger is not None and not isinstance(windows, SessionWindows):
        raise TopologyError(f"{made}: `merger` is for session windows only")
    node = Aggregate(
        name=made,
        parents=parents,
        key=key if windows is None else windowed_serde(key, windows),
        value=value,
        kind=kind,
        store=made,
        initial=initial,
        folds=folds,
        merger=None if merger is None else function_of(merger, made, values=2),
        windows=windows,
        emit=emit,
    )
    return Table(graph, graph.add(node))


def aggregate_serde(given: Any, fold: Callable[..., Any], initial: Callable[[], Any]) -> Serde[Any]:
    """The given type, the return type of the fold, or the type of the initial aggregate."""
    if not callable(initial):
        raise TopologyError(f"initial must be a function that returns the first aggregate, not {initial!r}")
    found = known(given) or inferred(result_type(fold))
    if found is None:
        first = initial()
        found = None if first is None else inferred(type(first))
        if found is None:
            raise TopologyError(
                f"the type of the aggregate is not known, and {first!r} does not show it: pass value=..."
            )
    return found


def _checked(windows: Any, emit: Any) -> Windows:
    if not isinstance(windows, TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows):
        raise TopologyError(
            "a stream is windowed by tumbling(...), hopping(...), sliding(...), session(...) or unlimited(), "
            f"not by {windows!r}"
        )
    if emit not in ("update", "close"):
        raise TopologyError(f"emit is `update` or `close`, not {emit!r}")
    if emit == "close" and isinstance(windows, UnlimitedWindows):
        raise TopologyError('an unlimited window never closes, so emit="close" would emit nothing')
    return windows
