"""Sends records through the operators of a topology, each to its end before the next.

Records written to a topic that the same topology reads (`through`, `repartition`) wait until the current record is
done, as they would in a log. Every topic has one partition.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.client.errors import IllegalState
from penstock.streams import topology as t
from penstock.streams.describe import connected
from penstock.streams.interpret import aggregates, joins, stateless, suppression, tables
from penstock.streams.interpret.operators import Operator, TableOperator, Tables
from penstock.streams.interpret.processing import ProcessRecords, TransformTable, store_for
from penstock.streams.interpret.state import State
from penstock.streams.nouns import Headers, Record, TopologyError
from penstock.streams.serdes import natural_bytes
from penstock.streams.stores import Store
from penstock.streams.topic_names import checked_topic

READ_AGAIN_MAX = 100_000  # caused by one record: far more than a test intends, and reached in seconds

_OPERATORS: dict[type[t.Node], Callable[[Any, Tables], Operator[Any]]] = {
    t.Filter: stateless.FilterRecords,
    t.Map: stateless.MapRecords,
    t.FlatMap: stateless.FlatMapRecords,
    t.Peek: stateless.PeekAtRecords,
    t.Merge: stateless.PassRecords,
    t.Repartition: stateless.PassRecords,
    t.Split: stateless.SplitRecords,
    t.Branch: stateless.TakeBranch,
    t.ToTable: tables.MakeTable,
    t.Aggregate: aggregates.aggregating,
    t.TableFilter: tables.FilterTable,
    t.TableMap: tables.MapTable,
    t.TableAggregate: tables.AggregateTable,
    t.Suppress: suppression.SuppressChanges,
    t.ToStream: tables.StreamChanges,
    t.StreamJoin: joins.JoinStreams,
    t.StreamTableJoin: joins.joining_table,
    t.GlobalJoin: joins.JoinGlobalTable,
    t.TableJoin: joins.JoinTables,
    t.ForeignKeyJoin: joins.JoinByForeignKey,
}


def operator_for(node: t.Node, tables: Tables) -> Operator[Any] | None:
    """The operator of a node that is not a processor; None for sources, sinks and global tables."""
    made = _OPERATORS.get(type(node))
    return None if made is None else made(node, tables)


@dataclass(frozen=True, slots=True)
class Output:
    """A written record: its bytes, and its sink."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers
    sink: t.Sink
    record: Record[Any, Any]
    """The key and value as Python objects."""


class Interpreter:
    """A running topology, driven by the records it is given."""

    def __init__(self, topology: t.Topology, *, application_id: str = "app", wall_time_ms: int = 0) -> None:
        self.topology = topology
        self.application_id = application_id
        self.wall_time_ms = wall_time_ms
        self.topic: str | None = None
        self.offset: int | None = None
        self.outputs: dict[str, list[Output]] = {}
        """Written records, by topic."""
        self._offsets: dict[str, int] = {}
        self._globals = {node: State(node.key, node.value) for node in topology.global_tables}
        self._stores: dict[str, Any] = {}
        self._stream_times: dict[int, int] = {}
        self._part_of = {node: number for number, nodes in enumerate(connected(topology)) for node in nodes}
        self._later: deque[Callable[[], None]] = deque()
        self._read_again: Counter[str] = Counter()
        """How many records of topics that are read were written since the last external record."""
        self._children = {
            node: [
                (child, index)
                for child in topology.nodes
                for index, parent in enumerate(child.parents)
                if parent is node
            ]
            for node in topology.nodes
        }
        self._operators: dict[t.Node, Operator[Any]] = {}
        for node in topology.nodes:
            if isinstance(node, t.TableTransform):
                with _named_in_errors(node):
                    self._operators[node] = TransformTable(node, self)
            elif isinstance(node, t.Process):
                with _named_in_errors(node):
                    self._operators[node] = ProcessRecords(node, self)
            elif (operator := operator_for(node, self)) is not None:
                self._operators[node] = operator

    def feed(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Process a record of a topic, and everything it causes."""
        if not self.reads(topic):
            raise TopologyError(
                f"{topic} is not an input topic of this topology; its input topics: {', '.join(self.topics)}"
            )
        self._read(topic, key, value, timestamp_ms, headers)
        self._see_through()

    def advance(self, milliseconds: int) -> None:
        """Advance the wall clock and fire timers."""
        self.wall_time_ms += milliseconds
        self._fire("wall", self.wall_time_ms, self._operators)
        self._see_through()

    def close(self) -> None:
        for node, operator in self._operators.items():
            if isinstance(operator, ProcessRecords):
                with _named_in_errors(node):
                    operator.close()

    @property
    def topics(self) -> list[str]:
        """The input topics known by name."""
        streams = [topic for source in self.topology.sources for topic in source.topics]
        return list(dict.fromkeys([*streams, *(table.topic for table in self.topology.global_tables)]))

    def reads(self, topic: str) -> bool:
        return any(source_reads(source, topic) for source in self.topology.sources) or any(
            table.topic == topic for table in self.topology.global_tables
        )

    def table(self, name: str) -> State:
        """The state of a table by its store's name."""
        owner = self.topology.stores.get(name)
        if owner is None or self.topology.store_of_processor(name) is not None:
            known = ", ".join(
                name for name in self.topology.stores if self.topology.store_of_processor(name) is None
            )
            raise TopologyError(f"no table is called {name}; tables: {known or 'none'}")
        return self._state_of(owner)

    def store(self, name: str) -> Any:
        """A processor's store, as the processor sees it."""
        if name not in self._stores:
            raise TopologyError(f"no store is called {name}; stores: {', '.join(self._stores) or 'none'}")
        return self._stores[name]

    # Called by operators.

    def state_of(self, node: t.Node, key: Any) -> State:
        return self._state_of(node)

    def _state_of(self, node: t.Node) -> State:
        if node in self._globals:
            return self._globals[node]
        operator = self._operators[node]
        assert isinstance(operator, TableOperator)
        return operator.state

    def stream_time_of(self, node: t.Node) -> int:
        return self._stream_times.get(self._part_of[node], -1)

    def store_named(self, store: Store[Any, Any]) -> Any:
        return self._stores.setdefault(store.name, store_for(store))

    def send_on(self, node: t.Node, record: Record[Any, Any]) -> None:
        """Forward a record of `node` to all its children."""
        for child, index in self._children[node]:
            if isinstance(child, t.Sink):
                self._write(child, record)
            elif isinstance(child, t.Repartition):
                self._send_later(child, record, index)
            else:
                self._receive(child, record, index)

    def _read(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> None:
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        for table, state in self._globals.items():
            if table.topic == topic and key is not None:
                assert table.key is not None
                assert table.value is not None
                with self._at(topic, offset):
                    state.put(table.key.decode(key), table.value.decode(value), timestamp_ms)
        for source in self.topology.sources:
            if source_reads(source, topic):
                with self._at(topic, offset):
                    self._enter(source, topic, key, value, timestamp_ms, headers)

    def _enter(
        self,
        source: t.Source,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        assert source.key is not None
        assert source.value is not None
        keys, values = source.key.for_topic(topic, is_key=True), source.value.for_topic(topic, is_key=False)
        with _named_in_errors(source):
            record = Record(keys.decode(key), values.decode(value), timestamp_ms, headers)
            if source.timestamp is not None:
                record = record.with_timestamp(source.timestamp(record.key, record.value))
            elif timestamp_ms < 0:
                raise without_time(timestamp_ms)
        if record.timestamp_ms < 0:  # what the user's function returns for a record to be dropped
            return
        part = self._part_of[source]
        self._stream_times[part] = max(self._stream_times.get(part, -1), record.timestamp_ms)
        self.send_on(source, record)
        self._fire(
            "stream",
            self._stream_times[part],
            [node for node in self._operators if self._part_of[node] == part],
        )

    def _receive(self, node: t.Node, record: Record[Any, Any], index: int) -> None:
        with _named_in_errors(node):
            given = iter(self._operators[node].receive(record, index))
        while True:
            with _named_in_errors(node):
                made = next(given, None)
            if made is None:
                return
            self.send_on(node, made)

    def _send_later(self, node: t.Node, record: Record[Any, Any], index: int) -> None:
        topic, offset = self.topic, self.offset

        def send() -> None:
            with self._at(topic, offset):
                self._receive(node, record, index)

        self._later.append(send)

    def _write(self, sink: t.Sink, record: Record[Any, Any]) -> None:
        with _named_in_errors(sink):
            topic = sink.topic
            if not isinstance(topic, str):
                topic = checked_topic(topic(record.key, record.value))
            key = (
                natural_bytes(record.key)
                if sink.key is None
                else _bytes(sink.key, topic, record.key, is_key=True)
            )
            value = (
                natural_bytes(record.value)
                if sink.value is None
                else _bytes(sink.value, topic, record.value, is_key=False)
            )
        output = Output(key, value, record.timestamp_ms, record.headers, sink, record)
        self.outputs.setdefault(topic, []).append(output)
        if self.reads(topic):
            self._read_again[topic] += 1
            self._later.append(lambda: self._read(topic, key, value, record.timestamp_ms, record.headers))

    def _see_through(self) -> None:
        """Process all waiting records, and what they cause."""
        while self._later:
            if self._read_again.total() > READ_AGAIN_MAX:
                self._later.clear()
                topics = ", ".join(sorted(self._read_again))
                self._read_again.clear()
                raise IllegalState(
                    f"this topology reads its own output and does not finish: one record caused more than "
                    f"{READ_AGAIN_MAX:,} records in topics that it both writes and reads: {topics}"
                )
            self._later.popleft()()
        self._read_again.clear()

    def _fire(self, clock: Any, now_ms: int, nodes: Any) -> None:
        for node in nodes:
            operator = self._operators[node]
            if isinstance(operator, ProcessRecords):
                with self._at(None, None), _named_in_errors(node):
                    operator.fire(clock, now_ms)

    @contextmanager
    def _at(self, topic: str | None, offset: int | None) -> Iterator[None]:
        """Adds the position of the current record to exceptions."""
        before = self.topic, self.offset
        self.topic, self.offset = topic, offset
        try:
            yield
        except Exception as error:
            if topic is not None:
                error.add_note(f"while processing {topic}-0 at offset {offset}")
            raise
        finally:
            self.topic, self.offset = before


def without_time(timestamp_ms: int) -> ValueError:
    """The error for a record without a valid timestamp; Kafka Streams does the same by default."""
    return ValueError(
        f"the record's timestamp {timestamp_ms} ms is invalid: "
        "pass timestamp=... to its source, a function that returns the event time"
    )


def source_reads(source: t.Source, topic: str) -> bool:
    if source.pattern is None:
        return topic in source.topics
    return re.fullmatch(source.pattern, topic) is not None


@contextmanager
def _named_in_errors(node: t.Node) -> Iterator[None]:
    """Adds the node to an exception of a user's function, once."""
    try:
        yield
    except Exception as error:
        if not any(note.startswith("in the node ") for note in getattr(error, "__notes__", ())):
            error.add_note(f"in the node {node.name}")
        raise


def _bytes(serde: Any, topic: str, part: Any, *, is_key: bool) -> bytes | None:
    encoded: bytes | None = serde.for_topic(topic, is_key=is_key).encode(part)
    return encoded
