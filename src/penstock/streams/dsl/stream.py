"""A stream: a sequence of records, each an independent fact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.streams.dsl.graph import inferred, known, need_key, need_value
from penstock.streams.dsl.stream_joins import StreamJoins
from penstock.streams.functions import Function, function_of, itself, result_type
from penstock.streams.nouns import Duration, TopologyError, milliseconds
from penstock.streams.processors import Processor
from penstock.streams.serdes import Serde, Spec
from penstock.streams.stores import Store
from penstock.streams.topology import Map, Process, ToTable

if TYPE_CHECKING:
    from penstock.streams.dsl.grouped import GroupedStream
    from penstock.streams.dsl.table import Table

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class Stream(StreamJoins[K, V]):
    """Records with keys of type K and values of type V."""

    def group_by_key(self) -> GroupedStream[K, V]:
        """Group the records by their key."""
        from penstock.streams.dsl.grouped import GroupedStream

        return GroupedStream(self._graph, self._node)

    @overload
    def group_by(
        self, function: Callable[[V], K2], *, key: Spec[K2] | None = None, name: str | None = None
    ) -> GroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, function: Callable[[K, V], K2], *, key: Spec[K2] | None = None, name: str | None = None
    ) -> GroupedStream[K2, V]: ...
    def group_by(
        self, function: Callable[..., Any], *, key: Any = None, name: str | None = None
    ) -> GroupedStream[Any, V]:
        """Group the records by the key that `function` returns."""
        return self._group(
            function_of(function, "group_by"), known(key) or inferred(result_type(function)), name
        )

    def group_by_value(self, *, name: str | None = None) -> GroupedStream[V, V]:
        """Group the records by their value: `words.group_by_value().count()`."""
        return self._group(Function(itself, takes_key=False), self._node.value, name)

    def to_table(self, *, history: Duration | None = None, name: str | None = None) -> Table[K, V]:
        """Keep the last value of each key; None deletes the key. With `history` the table is versioned: it keeps
        older values for that long, and orders records by timestamp instead of offset."""
        from penstock.streams.dsl.table import Table

        made = self._graph.name("table", name)
        node = ToTable(
            name=made,
            parents=(self._node,),
            key=need_key(self._node, made),
            value=need_value(self._node, made),
            store=made,
            history_ms=None if history is None else milliseconds(history, "the history", at_least=1),
        )
        return Table(self._graph, self._graph.add(node))

    def process(
        self,
        processor: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Sequence[Store[Any, Any]] = (),
        key: Spec[K2] | None = None,
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Send records through a processor: a class, or a function that creates one. See
        `penstock.streams.processors`."""
        return self._process(processor, stores, known(key), known(value), name, keeps_key=False)

    def process_values(
        self,
        processor: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Sequence[Store[Any, Any]] = (),
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Like `process`, with a processor that does not change keys."""
        return self._process(processor, stores, self._node.key, known(value), name, keeps_key=True)

    def _process(
        self,
        processor: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Sequence[Store[Any, Any]],
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        name: str | None,
        *,
        keeps_key: bool,
    ) -> Stream[Any, Any]:
        if not callable(processor):
            raise TopologyError(
                f"process takes a Processor class, or a function that creates one, not {processor!r}"
            )
        self._graph.add_stores(stores)
        made = self._graph.name("process", name)
        if stores:  # records may have to be repartitioned to the task that holds the state
            need_key(self._node, made)
            need_value(self._node, made)
        return self._stream(
            Process(
                name=made,
                parents=(self._node,),
                key=key,
                value=value,
                processor=processor,
                stores=tuple(stores),
                keeps_key=keeps_key,
            )
        )

    def _group(self, function: Function, key: Serde[Any] | None, name: str | None) -> GroupedStream[Any, Any]:
        from penstock.streams.dsl.grouped import GroupedStream

        node = Map(
            name=self._graph.name("group-by", name),
            parents=(self._node,),
            key=key,
            value=self._node.value,
            function=function,
            result="key",
        )
        return GroupedStream(self._graph, self._graph.add(node))
