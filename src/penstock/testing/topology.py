"""Runs a topology on given records, without a broker or Spark. Time moves only when the test says so.

    with TopologyTest(app) as test:
        test.input("lines").send("hello world")
        assert test.output("word-counts").to_dict() == {"hello": 1, "world": 1}

`app` is an `App` or a `Builder`. Records pass through their serdes, so wrong types are found here too. Results are
those of `penstock.streams.interpret`, the reference for what a topology means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from penstock.client.argument_types import quoted
from penstock.client.errors import IllegalState
from penstock.streams.dsl.builder import Builder
from penstock.streams.interpret.engine import Interpreter, Output, source_reads
from penstock.streams.interpret.state import State
from penstock.streams.nouns import Duration, Record, TopologyError, headers_of, milliseconds
from penstock.streams.serdes import Serde, Spec, serde_of
from penstock.streams.topology import Node, Topology

K = TypeVar("K")
V = TypeVar("V")


class TopologyTest:
    """Runs a topology inside the test. The wall clock starts at `start_ms` and moves only by `advance`."""

    def __init__(self, app: Builder | Topology, *, start_ms: int = 0) -> None:
        self.topology = app.topology if isinstance(app, Builder) else app
        application_id = getattr(app, "name", None) or "app"
        self._interpreter = Interpreter(self.topology, application_id=application_id, wall_time_ms=start_ms)
        self._read: dict[str, int] = {}
        self._is_closed = False

    @property
    def now_ms(self) -> int:
        """The wall clock: the timestamp of records that are sent without one."""
        return self._interpreter.wall_time_ms

    @overload
    def input(self, topic: str) -> InputTopic[Any, Any]: ...
    @overload
    def input(self, topic: str, *, key: Spec[K], value: Spec[V]) -> InputTopic[K, V]: ...
    def input(self, topic: str, *, key: Any = None, value: Any = None) -> InputTopic[Any, Any]:
        """An input topic, to send records to. By default it uses the types with which the topology reads it."""
        if not self._interpreter.reads(topic):
            known = ", ".join(self._interpreter.topics) or "no named topic"
            raise TopologyError(f"this topology does not read {topic}; it reads {known}")
        keys, values = self._serdes_of(topic)
        return InputTopic(
            self, topic, keys if key is None else serde_of(key), values if value is None else serde_of(value)
        )

    @overload
    def output(self, topic: str) -> OutputTopic[Any, Any]: ...
    @overload
    def output(self, topic: str, *, key: Spec[K], value: Spec[V]) -> OutputTopic[K, V]: ...
    def output(self, topic: str, *, key: Any = None, value: Any = None) -> OutputTopic[Any, Any]:
        """An output topic, to read records from."""
        named = [sink.topic for sink in self.topology.sinks if isinstance(sink.topic, str)]
        is_open = len(named) < len(self.topology.sinks)
        if topic not in named and not is_open:
            raise TopologyError(
                f"this topology does not write {topic}; it writes {', '.join(named) or 'no topic'}"
            )
        return OutputTopic(
            self,
            topic,
            None if key is None else serde_of(key),
            None if value is None else serde_of(value),
        )

    def table(self, name: str) -> TableView:
        """The state of a table, by its name (`count(name=...)`) or the name of its topic."""
        return TableView(self._interpreter.table(name))

    def store(self, name: str) -> Any:
        """The state store of a processor, with the processor's own interface: `get`, `items` and so on."""
        return self._interpreter.store(name)

    def advance(self, duration: Duration) -> None:
        """Advance the wall clock by seconds or by a `timedelta`. Timers of processors fire."""
        self._check_open()
        self._interpreter.advance(milliseconds(duration, "the time to advance by"))

    def close(self) -> None:
        """Close the processors. A `with` block does this itself."""
        if not self._is_closed:
            self._is_closed = True
            self._interpreter.close()

    def __enter__(self) -> TopologyTest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalState("this TopologyTest is closed")

    def _send(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Any
    ) -> None:
        self._check_open()
        self._interpreter.feed(topic, key, value, timestamp_ms, headers_of(headers))

    def _unread(self, topic: str) -> Iterator[Output]:
        """The unread records of a topic, each once."""
        outputs = self._written(topic)
        while (place := self._read.get(topic, 0)) < len(outputs):
            self._read[topic] = place + 1
            yield outputs[place]

    def _written(self, topic: str) -> list[Output]:
        return self._interpreter.outputs.get(topic, [])

    def _serdes_of(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        readers: list[Node] = [source for source in self.topology.sources if source_reads(source, topic)]
        readers += [table for table in self.topology.global_tables if table.topic == topic]
        for node in readers:
            if node.key is not None and node.value is not None:
                return node.key.for_topic(topic, is_key=True), node.value.for_topic(topic, is_key=False)
        raise TopologyError(f"the topology reads {topic} without types; declare its key and value types")


class InputTopic(Generic[K, V]):
    """Sends records to an input topic."""

    def __init__(self, test: TopologyTest, topic: str, key: Serde[K], value: Serde[V]) -> None:
        self._test = test
        self._topic = topic
        self._key = key
        self._value = value

    def send(
        self,
        value: V | None,
        *,
        key: K | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Send one record and process everything that follows from it. A value of None is a tombstone."""
        time_ms = self._test.now_ms if timestamp_ms is None else timestamp_ms
        self._test._send(self._topic, self._key.encode(key), self._value.encode(value), time_ms, headers)

    def send_all(self, values: Iterable[V | None]) -> None:
        """Send values without a key, one after the other."""
        if isinstance(values, str | bytes):
            raise TopologyError(f"send_all takes a list of values; send takes one, such as {quoted(values)}")
        for value in values:
            self.send(value)

    def send_pairs(self, pairs: Iterable[tuple[K | None, V | None]]) -> None:
        """Send pairs of key and value, one after the other."""
        for pair in pairs:
            if isinstance(pair, str | bytes):
                raise TopologyError(f"send_pairs takes pairs (key, value), not {quoted(pair)}")
            key, value = pair
            self.send(value, key=key)


class OutputTopic(Generic[K, V]):
    """Reads an output topic. Each record is read once, except by `to_dict`, which uses all records."""

    def __init__(self, test: TopologyTest, topic: str, key: Serde[K] | None, value: Serde[V] | None) -> None:
        self._test = test
        self._topic = topic
        self._key = key
        self._value = value

    def read(self) -> list[Record[K, V]]:
        """All records since the last call, with timestamps and headers."""
        return [self._decoded(output) for output in self._test._unread(self._topic)]

    def read_one(self) -> Record[K, V]:
        """The next record; an error if there is none."""
        for output in self._test._unread(self._topic):
            return self._decoded(output)
        raise LookupError(f"no unread records in {self._topic}")

    def read_values(self) -> list[V]:
        return [record.value for record in self.read()]

    def read_key_values(self) -> list[tuple[K, V]]:
        return [(record.key, record.value) for record in self.read()]

    def to_dict(self) -> dict[K, V]:
        """The topic as a table: the last value of each key, without deleted keys, over all records ever written."""
        table: dict[K, V] = {}
        for output in self._test._written(self._topic):
            record = self._decoded(output)
            table.pop(record.key, None)
            if record.value is not None:
                table[record.key] = record.value
        return table

    def is_empty(self) -> bool:
        """Whether all records have been read."""
        return self._test._read.get(self._topic, 0) == len(self._test._written(self._topic))

    def _decoded(self, output: Output) -> Record[K, V]:
        """Decode with the types given here, else with the sink's; without either, the program's own objects."""
        keys, values = self._key or output.sink.key, self._value or output.sink.value
        key: Any = output.record.key
        if keys is not None:
            key = keys.for_topic(self._topic, is_key=True).decode(output.key)
        value: Any = output.record.value
        if values is not None:
            value = values.for_topic(self._topic, is_key=False).decode(output.value)
        return Record(key, value, output.timestamp_ms, output.headers)


class TableView:
    """A read-only view of a table's state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""
        return self._state.get(key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Sorted by the bytes of the keys."""
        return self._state.items()

    def to_dict(self) -> dict[Any, Any]:
        return dict(self._state.items())

    def __len__(self) -> int:
        return len(self._state)
