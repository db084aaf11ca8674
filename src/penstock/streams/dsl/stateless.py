"""Stateless operators of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.client.argument_types import quoted
from penstock.streams.dsl.graph import Graph, inferred, known, need_key, need_value
from penstock.streams.functions import element_type, function_of, pair_types, result_type
from penstock.streams.nouns import Record, TopologyError
from penstock.streams.serdes import Serde, Spec
from penstock.streams.topic_names import checked_topic
from penstock.streams.topology import (
    Branch,
    Filter,
    FlatMap,
    Map,
    Merge,
    Node,
    Peek,
    Repartition,
    Sink,
    Source,
    Split,
)

if TYPE_CHECKING:
    from penstock.streams.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class Stateless(Generic[K, V]):
    """The stateless operators.

    Functions take the value, or the key and the value. If a later operator needs a type that the function's
    annotation does not show, pass it as `key=` and `value=`.
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node

    @property
    def name(self) -> str:
        return self._node.name

    @overload
    def filter(self, predicate: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    def filter(self, predicate: Callable[..., object], *, name: str | None = None) -> Stream[K, V]:
        """Keep the records for which `predicate` is true."""
        return self._filter(predicate, "filter", name, negated=False)

    @overload
    def filter_not(self, predicate: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    def filter_not(self, predicate: Callable[..., object], *, name: str | None = None) -> Stream[K, V]:
        """Drop the records for which `predicate` is true."""
        return self._filter(predicate, "filter-not", name, negated=True)

    @overload
    def map(
        self, function: Callable[[V], V2], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Spec[K2] | None = None,
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    def map(
        self, function: Callable[..., Any], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[Any, Any]:
        """Replace each value. A function of key and value returns a new pair `(key, value)`."""
        wrapped = function_of(function, "map")
        if wrapped.takes_key:
            keys, values = self._pair(result_type(function), key, value)
            return self._map("map", function, "pair", keys, values, name)
        if key is not None:
            raise TopologyError(
                "map cannot change the key with a function of the value alone: use a function of (key, value)"
            )
        return self._map(
            "map", function, "value", self._node.key, _either(value, result_type(function)), name
        )

    @overload
    def map_values(
        self, function: Callable[[V], V2], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: Callable[[K, V], V2], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    def map_values(
        self, function: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> Stream[K, Any]:
        """Replace each value. The key stays, so no repartitioning is needed."""
        values = _either(value, result_type(function))
        return self._map("map-values", function, "value", self._node.key, values, name)

    @overload
    def flat_map(
        self, function: Callable[[V], Iterable[V2]], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Spec[K2] | None = None,
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    def flat_map(
        self, function: Callable[..., Any], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[Any, Any]:
        """Replace each value by any number of values. A function of key and value returns pairs `(key, value)`."""
        wrapped = function_of(function, "flat_map")
        elements = element_type(result_type(function))
        if wrapped.takes_key:
            keys, values = self._pair(elements, key, value)
            return self._flat_map("flat-map", function, "pair", keys, values, name)
        if key is not None:
            raise TopologyError(
                "flat_map cannot change the key with a function of the value alone: use a function of (key, value)"
            )
        return self._flat_map("flat-map", function, "value", self._node.key, _either(value, elements), name)

    @overload
    def flat_map_values(
        self, function: Callable[[V], Iterable[V2]], *, value: Spec[V2] | None = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        function: Callable[[K, V], Iterable[V2]],
        *,
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def flat_map_values(
        self, function: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> Stream[K, Any]:
        """Replace each value by any number of values. The key stays."""
        values = _either(value, element_type(result_type(function)))
        return self._flat_map("flat-map-values", function, "value", self._node.key, values, name)

    def map_records(
        self,
        function: Callable[[Record[K, V]], Record[K2, V2]],
        *,
        key: Spec[K2] | None = None,
        value: Spec[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Replace each record, including its timestamp and headers: `record.with_headers(...)`, `record.header(...)`.

        The types of key and value stay the same unless they are given here.
        """
        keys, values = known(key) or self._node.key, known(value) or self._node.value
        return self._map("map-records", function, "record", keys, values, name)

    @overload
    def select_key(
        self, function: Callable[[V], K2], *, key: Spec[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: Callable[[K, V], K2], *, key: Spec[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    def select_key(
        self, function: Callable[..., Any], *, key: Any = None, name: str | None = None
    ) -> Stream[Any, V]:
        """Replace the key of each record."""
        keys = _either(key, result_type(function))
        return self._map("select-key", function, "key", keys, self._node.value, name)

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    def peek(self, action: Callable[..., object], *, name: str | None = None) -> Stream[K, V]:
        """Call `action` for each record and pass the record on. After a failure it may be called more than once."""
        return self._peek(action, "peek", name)

    @overload
    def foreach(self, action: Callable[[V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None: ...
    def foreach(self, action: Callable[..., object], *, name: str | None = None) -> None:
        """Call `action` for each record. This ends the stream."""
        self._peek(action, "foreach", name)

    def merge(self, *others: Stream[K, V], name: str | None = None) -> Stream[K, V]:
        """Merge this stream with others."""
        if not others:
            raise TopologyError("merge takes at least one other stream")
        for other in others:
            if not isinstance(other, Stateless):
                raise TopologyError(f"merge takes streams as separate arguments, not {quoted(other)}")
        nodes = (self._node, *(other._node for other in others))
        return self._stream(
            Merge(
                name=self._graph.name("merge", name),
                parents=nodes,
                key=_common(node.key for node in nodes),
                value=_common(node.value for node in nodes),
            )
        )

    def split(
        self, *predicates: Callable[[V], object] | Callable[[K, V], object], name: str | None = None
    ) -> tuple[Stream[K, V], ...]:
        """Split the stream: one stream for each predicate, and one more for the records that match none.

        big, small, rest = payments.split(lambda p: p.amount > 1000, lambda p: p.amount > 0)
        """
        if not predicates:
            raise TopologyError("split takes at least one predicate")
        split = self._graph.add(
            Split(
                name=self._graph.name("split", name),
                parents=(self._node,),
                key=self._node.key,
                value=self._node.value,
                predicates=tuple(function_of(predicate, "split") for predicate in predicates),
            )
        )
        branches: list[tuple[str, int | None]] = [
            (f"{split.name}-branch-{index + 1}", index) for index in range(len(predicates))
        ]
        branches.append((f"{split.name}-rest", None))
        return tuple(
            self._stream(
                Branch(
                    name=self._graph.name("branch", branch),
                    parents=(split,),
                    key=split.key,
                    value=split.value,
                    index=index,
                )
            )
            for branch, index in branches
        )

    def repartition(
        self,
        *,
        partitions: int | None = None,
        partition: Callable[[V, int], int] | Callable[[K, V, int], int] | None = None,
        name: str | None = None,
    ) -> Stream[K, V]:
        """Send the stream through an internal topic with this many partitions."""
        if partitions is not None and partitions < 1:
            raise TopologyError("a topic has at least one partition")
        made = self._graph.name("repartition", name)
        return self._stream(
            Repartition(
                name=made,
                parents=(self._node,),
                key=need_key(self._node, made),
                value=need_value(self._node, made),
                partitions=partitions,
                partition=None if partition is None else function_of(partition, "repartition", values=2),
            )
        )

    def through(self, topic: str, *, name: str | None = None) -> Stream[K, V]:
        """Write the stream to a topic and read it back, so that other applications can read it too."""
        checked_topic(topic)
        keys, values = need_key(self._node, f"through {topic}"), need_value(self._node, f"through {topic}")
        self.to(topic, name=name)
        source = Source(name=self._graph.name("source", None), key=keys, value=values, topics=(topic,))
        return self._stream(source)

    def to(
        self,
        topic: str | Callable[[V], str] | Callable[[K, V], str],
        *,
        key: Spec[K] | None = None,
        value: Spec[V] | None = None,
        partition: Callable[[V, int], int] | Callable[[K, V, int], int] | None = None,
        name: str | None = None,
    ) -> None:
        """Write the stream to a topic, or to the topic that a function of the record returns. `partition` gets the
        number of partitions as its last argument."""
        if not callable(topic):
            checked_topic(topic)
        self._graph.add(
            Sink(
                name=self._graph.name("sink", name),
                parents=(self._node,),
                key=known(key) or self._node.key,
                value=known(value) or self._node.value,
                topic=topic if isinstance(topic, str) else function_of(topic, "to"),
                partition=None if partition is None else function_of(partition, "to", values=2),
            )
        )

    def _filter(
        self, predicate: Callable[..., object], operator: str, name: str | None, *, negated: bool
    ) -> Stream[K, V]:
        node = Filter(
            name=self._graph.name(operator, name),
            parents=(self._node,),
            key=self._node.key,
            value=self._node.value,
            function=function_of(predicate, operator),
            negated=negated,
        )
        return self._stream(node)

    def _peek(self, action: Callable[..., object], operator: str, name: str | None) -> Stream[K, V]:
        node = Peek(
            name=self._graph.name(operator, name),
            parents=(self._node,),
            key=self._node.key,
            value=self._node.value,
            function=function_of(action, operator),
        )
        return self._stream(node)

    def _map(
        self,
        operator: str,
        function: Callable[..., Any],
        result: Literal["value", "key", "pair", "record"],
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        name: str | None,
    ) -> Stream[Any, Any]:
        wrapped = function_of(function, operator)
        made = self._graph.name(operator, name)
        return self._stream(
            Map(name=made, parents=(self._node,), key=key, value=value, function=wrapped, result=result)
        )

    def _flat_map(
        self,
        operator: str,
        function: Callable[..., Any],
        result: Literal["value", "pair"],
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        name: str | None,
    ) -> Stream[Any, Any]:
        wrapped = function_of(function, operator)
        made = self._graph.name(operator, name)
        return self._stream(
            FlatMap(name=made, parents=(self._node,), key=key, value=value, function=wrapped, result=result)
        )

    def _pair(self, kind: Any, key: Any, value: Any) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        key_kind, value_kind = pair_types(kind)
        return _either(key, key_kind), _either(value, value_kind)

    def _stream(self, node: Node) -> Stream[Any, Any]:
        from penstock.streams.dsl.stream import Stream

        return Stream(self._graph, self._graph.add(node))


def _either(given: Any, found: Any) -> Serde[Any] | None:
    return known(given) or inferred(found)


def _common(serdes: Iterable[Serde[Any] | None]) -> Serde[Any] | None:
    """The serde that all streams have in common, or None."""
    first, *rest = serdes
    return first if all(serde == first for serde in rest) else None
