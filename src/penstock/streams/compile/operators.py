"""The operators of a domain over one page of its keys: the interpreter's own, their state in bytes between batches.

So what a topology means is written once. What is different here: keys are spread over pages, of which none sees all
records, so stream time is told (`advance`); updates of a table within a batch may be passed on as one (`caches`); and
changes of tables are also written to their changelogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from penstock.streams import topology as t
from penstock.streams.compile import memory, names
from penstock.streams.compile.cut import RIGHT_CHANGED, SUBSCRIBED, Crossing, Place
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.outputs import Output, encoded_one
from penstock.streams.compile.references import (
    GroupOfTable,
    JoinByReference,
    group_messages,
    subscription_messages,
)
from penstock.streams.compile.tables import Rows, WorkerTables
from penstock.streams.compile.tasks import Program
from penstock.streams.interpret.aggregates import AggregateRecords
from penstock.streams.interpret.engine import operator_for
from penstock.streams.interpret.operators import Operator, TableOperator
from penstock.streams.interpret.processing import KeyValues, ProcessRecords, TransformTable, store_for
from penstock.streams.interpret.state import State
from penstock.streams.interpret.tables import AggregateTable
from penstock.streams.nouns import Change, Record
from penstock.streams.stores import Store

At: TypeAlias = "tuple[str | None, int | None, int | None]"
"""Topic, partition and offset."""
NOWHERE: At = (None, None, None)
Failing: TypeAlias = Callable[[OperatorFailed, At, int], None]
"""What is done about a change that failed: (the failure, where it came from, its time in ms). It raises, or the change
is left out."""


class OperatorPage:
    """All operators of a domain, for some of its keys, during one batch."""

    def __init__(
        self,
        program: Program,
        domain: Place,
        output: Output,
        tables: WorkerTables,
        logged: Mapping[str, bool],
        operators: list[t.Node],
        *,
        wall_time_ms: int,
    ) -> None:
        self.application_id = program.application_id
        self.wall_time_ms = wall_time_ms
        self.stream_time_ms = -1
        self.at: At = NOWHERE
        """Where the record at hand was read."""
        self._program = program
        self._domain = domain
        self._output = output
        self._global_tables = tables
        self._logged = logged
        self._stores: dict[str, Any] = {}
        self._cached: dict[t.Node, dict[bytes, tuple[Record[Any, Change[Any]], At]]] = {}
        """By the bytes of a key: its last change, and where that came from."""
        self._operators: dict[t.Node, Operator[Any]] = {}
        for node in operators:
            with _telling(node, "while it began"):
                self._operators[node] = self._made(node)
        self._has_processors = any(isinstance(node, t.Process) for node in operators)

    # What comes in.

    def receive(self, node: t.Node, position: int, record: Record[Any, Any]) -> None:
        """A record from another place, for one of the node's inputs."""
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
        self._run(node, position, record)
        if self._has_processors:
            self._fire("stream", self.stream_time_ms)

    def advance(self, stream_time_ms: int) -> None:
        """Records elsewhere have shown that it is this late; or records here, which need not have come to all of the
        operators."""
        if stream_time_ms < 0:
            return
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)
        for node, operator in self._operators.items():
            if hasattr(operator, "stream_time_ms") and not isinstance(operator, ProcessRecords):
                for made in self._told(node, operator.advance(stream_time_ms)):
                    self._send(node, made)
        self._fire("stream", self.stream_time_ms)

    def tick(self) -> None:
        """The wall clock's timers."""
        self._fire("wall", self.wall_time_ms)

    def finish(self, failing: Failing) -> None:
        """Pass on what has been held back in the batch, each as of the record that it came of last: as Kafka Streams
        does it with what its caches held back."""
        for node, operator in self._operators.items():
            if isinstance(operator, CachedFold):
                for held in operator.changes():
                    self._pass_on(node, *held, failing)
            for record, at in self._cached.pop(node, {}).values():
                self._pass_on(node, record.key, record.timestamp_ms, at, iter((record,)), failing)
        self.at = NOWHERE

    def _pass_on(
        self, node: t.Node, key: Any, time_ms: int, at: At, changes: Iterator[Any], failing: Failing
    ) -> None:
        self.at = at
        try:
            for record in self._told(node, changes):
                self._send_on(node, record)
        except OperatorFailed as failure:
            failing(failure.of(key).at(*at), at, time_ms)

    def waits_until_ms(self) -> int | None:
        """The stream time beyond which something happens without a record."""
        times = [operator.waits_until_ms() for operator in self._operators.values()]
        times += [
            timer.next_ms
            for operator in self._operators.values()
            if isinstance(operator, ProcessRecords)
            for timer in operator.timers
            if timer.clock == "stream" and not timer.is_cancelled
        ]
        return min((time for time in times if time is not None), default=None)

    def wall_due_ms(self) -> int | None:
        """The wall time at which a timer is due."""
        times = (
            timer.next_ms
            for operator in self._operators.values()
            if isinstance(operator, ProcessRecords)
            for timer in operator.timers
            if timer.clock == "wall" and not timer.is_cancelled
        )
        return min(times, default=None)

    def close(self) -> None:
        for operator in self._operators.values():
            if isinstance(operator, ProcessRecords):
                with _telling(operator.node, "when it was closed"):
                    operator.close()

    # What is kept between batches.

    def remembered(self) -> bytes | None:
        """All state as bytes; None where there is none."""
        return memory.taken(self._operators, self._stores, stream_time_ms=self.stream_time_ms)

    def remember(self, data: bytes) -> None:
        self.stream_time_ms = memory.put_back(data, self._operators, self._stores)

    # What operators ask for: see `interpret.processing.Surroundings`.

    @property
    def topic(self) -> str | None:
        return self.at[0]

    @property
    def partition(self) -> int | None:
        return self.at[1]

    @property
    def offset(self) -> int | None:
        return self.at[2]

    def state_of(self, node: t.Node) -> State:
        if isinstance(node, t.GlobalTable):
            return _RowsAsState(self._global_tables.rows(node))
        operator = self._operators[node]
        assert isinstance(operator, TableOperator)
        return operator.state

    def stream_time_of(self, node: t.Node) -> int:
        return self.stream_time_ms

    def store_named(self, store: Store[Any, Any]) -> Any:
        if store.name not in self._stores:
            made = store_for(store)
            self._stores[store.name] = made
            if store.logged:
                self._log_changes(store, made)
        return self._stores[store.name]

    def send_on(self, node: t.Node, record: Record[Any, Any]) -> None:
        self._send(node, record)

    # What goes on.

    def _run(self, node: t.Node, position: int, record: Record[Any, Any]) -> None:
        operator = self._operators[node]
        send = self._send
        if isinstance(operator, JoinByReference) and position in (RIGHT_CHANGED, SUBSCRIBED):
            send = self._answer
        try:
            for made in operator.receive(record, position):
                send(node, made)
        except OperatorFailed as failure:
            if failure.key is None:
                raise failure.of(record.key) from failure.reason
            raise
        except Exception as error:
            raise OperatorFailed(node.name, error).of(record.key) from error

    def _told(self, node: t.Node, made: Iterator[Any]) -> Iterator[Any]:
        """Errors of users' functions, with the name of the operator."""
        while True:
            try:
                record = next(made, None)
            except OperatorFailed:
                raise
            except Exception as error:
                raise OperatorFailed(node.name, error) from error
            if record is None:
                return
            yield record

    def _send(self, node: t.Node, record: Record[Any, Any]) -> None:
        if self._caches(node):
            held = self._cached.setdefault(node, {})
            operator = self._operators[node]
            assert isinstance(operator, TableOperator)
            place = operator.state.place(record.key)
            if place in held:
                first = held.pop(place)[0].value.old
                if first is None and record.value.new is None:
                    return
                record = record.with_value(Change(record.value.new, first))
            held[place] = record, self.at
            return
        self._send_on(node, record)

    def _caches(self, node: t.Node) -> bool:
        if not self._program.caches:
            return False
        return isinstance(node, t.TableAggregate) or (isinstance(node, t.Aggregate) and node.emit == "update")

    def _send_on(self, node: t.Node, record: Record[Any, Any]) -> None:
        try:
            self._log(node, record)
            for crossing in self._domain.crossings.get(node, ()):
                self._cross(crossing, node, record)
            for child, position in self._domain.children.get(node, ()):
                if isinstance(child, t.Sink):
                    self._output.add_sink_record(
                        child, record.key, record.value, record.timestamp_ms, record.headers
                    )
                else:
                    self._run(child, position, record)
        except OperatorFailed as failure:
            if failure.key is None:
                raise failure.of(record.key) from failure.reason
            raise

    def _cross(self, crossing: Crossing, node: t.Node, record: Record[Any, Any]) -> None:
        topic = names.internal(self.application_id, crossing.topic)
        child = crossing.child
        if crossing.kind == "group":
            assert isinstance(child, t.TableAggregate)
            sender = AggregateTable(child, self)
            messages = list(self._told(child, group_messages(sender, record)))
        elif crossing.kind == "subscribe":
            assert isinstance(child, t.ForeignKeyJoin)
            messages = list(self._told(child, subscription_messages(child, record)))
        elif crossing.kind == "stream":
            key = encoded_one(node.key, record.key, node.name)
            messages = [(key, encoded_one(node.value, record.value, node.name))]
        else:
            return
        partition = self._output.partition_of(crossing.partition, node.name, topic, record.key, record.value)
        for key, value in messages:
            self._output.add(topic, key, value, record.timestamp_ms, record.headers, partition)

    def _answer(self, node: t.Node, record: Record[Any, Any]) -> None:
        for crossing in self._domain.crossings.get(node, ()):
            if crossing.kind == "answer":
                topic = names.internal(self.application_id, crossing.topic)
                self._output.add(topic, record.key, record.value, record.timestamp_ms, record.headers)

    def _log(self, node: t.Node, record: Record[Any, Any]) -> None:
        store = getattr(node, "store", None)
        if store is None or not self._logged.get(store) or not isinstance(record.value, Change):
            return
        self._output.add(
            names.changelog(self.application_id, store),
            encoded_one(node.key, record.key, node.name),
            encoded_one(node.value, record.value.new, node.name),
            record.timestamp_ms,
        )

    def _log_changes(self, store: Store[Any, Any], made: Any) -> None:
        """Write what a processor puts into its store to the changelog too."""
        topic = names.changelog(self.application_id, store.name)
        state: State = made._state
        put = state.put

        def logged(key: Any, value: Any, timestamp_ms: int) -> None:
            put(key, value, timestamp_ms)
            data = None if value is None else store.value.encode(value)
            time_ms = max(0, self.stream_time_ms) if isinstance(made, KeyValues) else timestamp_ms
            self._output.add(topic, state.place(key), data, time_ms)

        state.put = logged  # type: ignore[method-assign]

    def _fire(self, clock: Any, now_ms: int) -> None:
        for node, operator in self._operators.items():
            if isinstance(operator, ProcessRecords) and operator.timers:
                before, self.at = self.at, NOWHERE
                with _telling(node, f"in a timer of {clock} time at {now_ms} ms"):
                    operator.fire(clock, now_ms)
                self.at = before

    def _made(self, node: t.Node) -> Operator[Any]:
        if isinstance(node, t.TableTransform):
            return _TransformTable(node, self)
        if isinstance(node, t.Process):
            return _ProcessRecords(node, self)
        if isinstance(node, t.TableAggregate):
            return GroupOfTable(node, self)
        if isinstance(node, t.ForeignKeyJoin):
            return JoinByReference(node, self)
        if isinstance(node, t.Aggregate) and node.windows is None and self._program.caches:
            return CachedFold(node, self)
        operator = operator_for(node, self)
        assert operator is not None, f"{node} cannot run behind state"
        return operator


@contextmanager
def _telling(node: t.Node, when: str) -> Iterator[None]:
    """What is raised there is of the node, and of no record; what it forwards may have failed elsewhere."""
    try:
        yield
    except OperatorFailed as failure:
        raise failure.during(f"{when} of {node.name}") from failure.reason
    except Exception as error:
        raise OperatorFailed(node.name, error, when) from error


class CachedFold(AggregateRecords):
    """A fold of which only the last update in a batch is passed on: an aggregate is read and written once in a batch,
    not with every record, which makes 130,000 records a second of 50,000 on a core."""

    tables: OperatorPage

    def __init__(self, node: t.Aggregate, page: OperatorPage) -> None:
        super().__init__(node, page)
        self._open: dict[bytes, list[Any]] = {}

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        key = record.key
        if key is None or record.value is None:
            return iter(())
        place = self.state.place(key)
        held = self._open.get(place)
        if held is None:
            aggregate, timestamp_ms = self.state.with_timestamp(key)
            held = [key, aggregate, timestamp_ms, (), NOWHERE]
        held[1] = self._fold(record, parent, held[1])
        self._open[place] = held  # not before: a key whose fold has failed has not changed
        if record.timestamp_ms > held[2]:
            held[2] = record.timestamp_ms
        held[3] = record.headers
        held[4] = self.tables.at
        return iter(())

    def changes(self) -> Iterator[tuple[Any, int, At, Iterator[Record[Any, Any]]]]:
        """What the batch has changed: key, time, where the last record of it was read, and the change."""
        held, self._open = self._open, {}
        for key, aggregate, timestamp_ms, headers, at in held.values():
            yield key, timestamp_ms, at, self.state.change(key, aggregate, timestamp_ms, headers)


class _Placed:
    """A processor that also knows its partition."""

    _around: Any

    @property
    def partition(self) -> int | None:
        found: int | None = self._around.partition
        return found


class _ProcessRecords(_Placed, ProcessRecords[t.Process]):
    pass


class _TransformTable(_Placed, TransformTable):
    pass


class _RowsAsState(State):
    """A global table's rows, to be asked."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(None, None)
        self._found = rows

    def with_timestamp(self, key: Any) -> tuple[Any, int]:
        return self._found.get(key), -1
