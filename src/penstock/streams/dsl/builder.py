"""The start of a program: `stream`, `table` and `global_table` read topics. `App` is a Builder that runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from penstock.client.argument_types import quoted
from penstock.client.errors import IllegalState
from penstock.streams.dsl.graph import Graph, State
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import GlobalTable, Table
from penstock.streams.functions import function_of
from penstock.streams.nouns import Duration, TopologyError, milliseconds
from penstock.streams.serdes import Spec, serde_of
from penstock.streams.topic_names import checked_topic
from penstock.streams.topology import GlobalTable as GlobalNode
from penstock.streams.topology import Source, Topology, ToTable

K = TypeVar("K")
V = TypeVar("V")

Topics = str | Sequence[str] | re.Pattern[str]
Reset = Literal["earliest", "latest"] | timedelta


class Builder:
    """Builds a topology. Use it without an `App` to test or inspect a topology."""

    def __init__(self) -> None:
        self._graph = Graph(self)

    @property
    def name(self) -> str | None:
        """The prefix of internal topics; only an `App` has one."""
        return None

    @property
    def topology(self) -> Topology:
        return self._graph.topology

    @overload
    def stream(
        self,
        topics: Topics,
        *,
        timestamp: Callable[[bytes], int] | Callable[[bytes, bytes], int] | None = None,
        reset: Reset | None = None,
        name: str | None = None,
    ) -> Stream[bytes, bytes]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        key: Spec[K],
        timestamp: Callable[[bytes], int] | Callable[[K, bytes], int] | None = None,
        reset: Reset | None = None,
        name: str | None = None,
    ) -> Stream[K, bytes]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        value: Spec[V],
        timestamp: Callable[[V], int] | Callable[[bytes, V], int] | None = None,
        reset: Reset | None = None,
        name: str | None = None,
    ) -> Stream[bytes, V]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        key: Spec[K],
        value: Spec[V],
        timestamp: Callable[[V], int] | Callable[[K, V], int] | None = None,
        reset: Reset | None = None,
        name: str | None = None,
    ) -> Stream[K, V]: ...
    def stream(
        self,
        topics: Topics,
        *,
        key: Any = bytes,
        value: Any = bytes,
        timestamp: Callable[..., int] | None = None,
        reset: Reset | None = None,
        name: str | None = None,
    ) -> Stream[Any, Any]:
        """Read records from a topic, a list of topics, or all topics that match a compiled pattern.

        `timestamp` returns the event time in ms from the value (or from key and value); by default it is the record's
        timestamp. `reset` sets where to start without a committed offset: at the earliest or latest offset, or this
        long ago.
        """
        return Stream(self._graph, self._source(topics, key, value, timestamp, reset, name))

    @overload
    def table(self, topic: str) -> Table[Any, Any]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: Spec[K],
        value: Spec[V],
        timestamp: Callable[[V], int] | Callable[[K, V], int] | None = None,
        reset: Reset | None = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]: ...
    def table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: Callable[..., int] | None = None,
        reset: Reset | None = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[Any, Any]:
        """Read a topic as a table: the last value of each key. The store is named after the topic unless `name` is
        given. With `history` the table is versioned: it keeps older values for that long, and orders records by
        timestamp instead of offset.

        With a name only: the existing table of that name, to query its state.
        """
        if key is None and value is None and topic in self._graph.tables:
            return self._graph.tables[topic]
        if key is None or value is None:
            known = ", ".join(self._graph.tables) or "none yet"
            raise TopologyError(
                f"no table is called {topic} (tables: {known}); "
                "to read a topic as a table pass its types: key=..., value=..."
            )
        checked_topic(topic)
        store = self._graph.name("table", topic if name is None else name)
        source = self._source(topic, key, value, timestamp, reset, None)
        node = ToTable(
            name=store,
            parents=(source,),
            key=source.key,
            value=source.value,
            store=store,
            history_ms=None if history is None else milliseconds(history, "the history", at_least=1),
        )
        return Table(self._graph, self._graph.add(node))

    def global_table(
        self, topic: str, *, key: Spec[K], value: Spec[V], name: str | None = None
    ) -> GlobalTable[K, V]:
        """Read a topic as a table with a full copy on every worker. Streams look it up by any key, without
        repartitioning."""
        checked_topic(topic)
        made = self._graph.name("global-table", topic if name is None else name)
        node = GlobalNode(name=made, key=serde_of(key), value=serde_of(value), topic=topic, store=made)
        return GlobalTable(self._graph, self._graph.add(node))

    def state(self, name: str) -> State[Any, Any]:
        """The state of a table. Only a running app has one."""
        raise IllegalState(f"{name} has no state: this topology is not running")

    def describe(self) -> str:
        """The topology as text: what is read, computed, stored and written."""
        from penstock.streams.describe import describe

        return describe(self.topology)

    def plot(self, path: str | Path | None = None) -> str:
        """Draw the topology as SVG. With a path, write it in the format of the file name's extension: `.svg`,
        `.html`, `.dot` or `.gv` (Graphviz), `.txt`."""
        if path is None:
            from penstock.streams.plot import plot

            return plot(self.topology)
        from penstock.streams.drawings import drawing_for

        file = Path(path)
        drawing = drawing_for(file, self.topology)
        file.write_text(drawing, encoding="utf-8")
        return drawing

    def _source(
        self,
        topics: Any,
        key: Any,
        value: Any,
        timestamp: Callable[..., int] | None,
        reset: Reset | None,
        name: str | None,
    ) -> Source:
        if not isinstance(reset, timedelta) and reset not in (None, "earliest", "latest"):
            raise TopologyError(f"reset must be `earliest`, `latest` or a timedelta, not {reset!r}")
        pattern = topics.pattern if isinstance(topics, re.Pattern) else None
        names: tuple[str, ...] = ()
        if isinstance(topics, str):
            names = (topics,)
        elif isinstance(topics, Iterable) and not isinstance(topics, bytes):
            names = tuple(topics)
        elif pattern is None:
            raise TopologyError(
                f"a stream reads a topic, a list of topics or a pattern, not {quoted(topics)}"
            )
        if pattern is not None and isinstance(reset, timedelta):
            raise TopologyError(
                "a timedelta needs named topics: with a pattern use reset=`earliest` or `latest`"
            )
        if pattern is None and not names:
            raise TopologyError("a stream needs at least one topic")
        for topic in names:
            checked_topic(topic)
        return self._graph.add(
            Source(
                name=self._graph.name("source", name),
                key=serde_of(key),
                value=serde_of(value),
                topics=names,
                pattern=pattern,
                timestamp=None if timestamp is None else function_of(timestamp, "timestamp"),
                reset=reset,
            )
        )
