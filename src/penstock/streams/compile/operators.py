"""The operators of a domain for one page of its keys: the interpreter's own, with their state in bytes between
batches.

The meaning of a topology is therefore written once. The differences: keys are spread over pages, none of which sees
all records, so stream time is passed in (`advance`); updates of a table within a batch may be combined (`caches`);
and changes of tables are also written to their changelogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from penstock.streams import topology as t
from penstock.streams.compile import memory, names
from penstock.streams.compile.caching import (
    NOWHERE,
    At,
    CachedFold,
    Held,
    HeldChanges,
    held_above,
    is_cached,
    is_held,
)
from penstock.streams.compile.cut import RIGHT_CHANGED, SUBSCRIBED, Crossing, Place
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.outputs import Output, encoded_one
from penstock.streams.compile.references import (
    GroupOfTable,
    JoinByReference,
    Message,
    group_messages,
    subscription_messages,
)
from penstock.streams.compile.tables import Rows, WorkerTables
from penstock.streams.compile.tasks import Program
from penstock.streams.interpret.engine import operator_for
from penstock.streams.interpret.operators import Operator, TableOperator
from penstock.streams.interpret.processing import KeyValues, ProcessRecords, TransformTable, store_for
from penstock.streams.interpret.state import State
from penstock.streams.interpret.tables import AggregateTable
from penstock.streams.nouns import Change, Record
from penstock.streams.serdes import Serde, natural_bytes
from penstock.streams.stores import Store

Serdes: TypeAlias = "tuple[Serde[Any] | None, Serde[Any] | None]"
"""Of a key and a value."""


class Cause(NamedTuple):
    """The cause of the current step: the record's position, the record, and the serdes of its key and value."""

    at: At
    record: Record[Any, Any]
    serdes: Serdes

    def written(self) -> tuple[bytes | None, bytes | None]:
        """The record's serialized key and value; None if one cannot be serialized or is a table change."""
        value = None if isinstance(self.record.value, Change) else _written(self.serdes[1], self.record.value)
        return _written(self.serdes[0], self.record.key), value


Failing: TypeAlias = Callable[[OperatorFailed, Cause], None]
"""Handles a failure: raises, or the record is skipped where it failed."""


class OperatorPage:
    """All operators of a domain for some of its keys, during one batch."""

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
        failing: Failing,
    ) -> None:
        self.application_id = program.application_id
        self.wall_time_ms = wall_time_ms
        self.stream_time_ms = -1
        self._cause = Cause(NOWHERE, Record(None, None, 0), (None, None))
        self._failing = failing
        self._program = program
        self._domain = domain
        self._output = output
        self._global_tables = tables
        self._logged = logged
        self._stores: dict[str, Any] = {}
        self._held = HeldChanges()
        self._is_held = {node: is_held(node, program) for node in operators}
        self._held_above: dict[t.Node, list[t.Node]] = {}
        self._operators: dict[t.Node, Operator[Any]] = {}
        for node in operators:
            with _telling(node, "while it began"):
                self._operators[node] = self._made(node)
        self._has_processors = any(isinstance(node, t.Process) for node in operators)

    # Input.

    def receive(self, node: t.Node, position: int, record: Record[Any, Any], at: At, serdes: Serdes) -> None:
        """A record from another place, for one of the node's inputs."""
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
        self._cause = Cause(at, record, serdes)
        self._run(node, position, record)
        if self._has_processors:
            self._fire("stream", self.stream_time_ms)

    def advance(self, stream_time_ms: int) -> None:
        """Advance stream time, because of records elsewhere or of records here that did not reach all operators."""
        if stream_time_ms < 0:
            return
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)
        for node, operator in self._operators.items():
            if hasattr(operator, "stream_time_ms") and not isinstance(operator, ProcessRecords):
                with self._because(self._no_cause):
                    self._send_all(node, operator.advance(stream_time_ms))
        self._fire("stream", self.stream_time_ms)

    def tick(self) -> None:
        """Fire the wall-clock timers."""
        self._fire("wall", self.wall_time_ms)

    def finish(self) -> None:
        """Forward the updates buffered in the batch, each with the position of its last record, as Kafka Streams'
        caches do."""
        for node, operator in self._operators.items():
            if isinstance(operator, CachedFold):
                for place in operator.open_places:
                    self._write_down(operator, place)
            for held in self._held.take_all(node):
                self._pass_on(node, held)

    def waits_until_ms(self) -> int | None:
        """The stream time after which something happens without a record."""
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

    # State between batches.

    def remembered(self) -> bytes | None:
        """All state as bytes; None if there is none."""
        return memory.taken(self._operators, self._stores, stream_time_ms=self.stream_time_ms)

    def remember(self, data: bytes) -> None:
        self.stream_time_ms = memory.put_back(data, self._operators, self._stores)

    # Called by operators: see `interpret.processing.ProcessorEngine`.

    @property
    def at(self) -> At:
        """The position of the current record."""
        return self._cause.at

    @property
    def topic(self) -> str | None:
        return self._cause.at[0]

    @property
    def partition(self) -> int | None:
        return self._cause.at[1]

    @property
    def offset(self) -> int | None:
        return self._cause.at[2]

    def state_of(self, node: t.Node, key: Any) -> State:
        if isinstance(node, t.GlobalTable):
            return _RowsAsState(self._global_tables.rows(node))
        if key is not None:
            self._bring_up_to_date(node, key)
        return self._table(node).state

    def _bring_up_to_date(self, node: t.Node, key: Any) -> None:
        """The row of a key, including buffered changes of this table and of the tables it is derived from."""
        if node not in self._held_above:
            self._held_above[node] = held_above(node, self._domain, self._program)
        for above in self._held_above[node]:
            table = self._table(above)
            place = table.state.place(key)
            if isinstance(table, CachedFold):
                self._write_down(table, place)
            if above is not node and (held := self._held.take(above, place)) is not None:
                self._pass_on(above, held)

    def _write_down(self, fold: CachedFold, place: bytes) -> None:
        """Write an open aggregate to the fold's state; forwarding waits."""
        found = fold.take(place)
        if found is None:
            return
        key, node = found.key, fold.node
        try:
            for change in fold.state.change(key, found.aggregate, found.timestamp_ms, found.headers):
                self._held.hold(node, place, change, found.at)
        except Exception as error:
            with self._because(Cause(found.at, Record(key, None, found.timestamp_ms), (node.key, None))):
                self._fail(OperatorFailed(node.name, error).of(key))

    def _pass_on(self, node: t.Node, held: Held) -> None:
        before, self._cause = self._cause, Cause(held.at, held.record, (node.key, None))
        try:
            self._send_on(node, held.record)
        finally:
            self._cause = before

    def _table(self, node: t.Node) -> TableOperator[Any]:
        operator = self._operators[node]
        assert isinstance(operator, TableOperator)
        return operator

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

    # Output.

    def _run(self, node: t.Node, position: int, record: Record[Any, Any]) -> None:
        operator = self._operators[node]
        send = self._send
        if isinstance(operator, JoinByReference) and position in (RIGHT_CHANGED, SUBSCRIBED):
            send = self._answer
        try:
            for made in operator.receive(record, position):
                send(node, made)
        except OperatorFailed as failure:
            self._fail(failure.of(record.key))
        except Exception as error:
            self._fail(OperatorFailed(node.name, error).of(record.key))

    def _send_all(self, node: t.Node, made: Iterator[Record[Any, Any]]) -> None:
        """The output of an operator without an input record."""
        try:
            for record in made:
                self._send(node, record)
        except OperatorFailed as failure:
            self._fail(failure)
        except Exception as error:
            self._fail(OperatorFailed(node.name, error))

    def _send(self, node: t.Node, record: Record[Any, Any]) -> None:
        if self._is_held[node]:
            self._held.hold(node, self._table(node).state.place(record.key), record, self._cause.at)
        else:
            self._send_on(node, record)

    def _send_on(self, node: t.Node, record: Record[Any, Any]) -> None:
        """Forward to all children. If one fails and the record may be skipped, the others still get it."""
        try:
            self._log(node, record)
        except OperatorFailed as failure:
            self._fail(failure.of(record.key))
        for crossing in self._domain.crossings.get(node, ()):
            try:
                self._cross(crossing, node, record)
            except OperatorFailed as failure:
                self._fail(failure.of(record.key))
        for child, position in self._domain.children.get(node, ()):
            if not isinstance(child, t.Sink):
                self._run(child, position, record)
                continue
            try:
                self._output.add_sink_record(
                    child, record.key, record.value, record.timestamp_ms, record.headers
                )
            except OperatorFailed as failure:
                self._fail(failure.of(record.key))

    def _fail(self, failure: OperatorFailed) -> None:
        """Handled here rather than where the record came in, so that its other results continue, as in Kafka Streams.
        If nothing may be skipped, this raises the failure, and is called again by each caller on the way up."""
        self._failing(failure.at(*self._cause.at), self._cause)

    @contextmanager
    def _because(self, cause: Cause) -> Iterator[None]:
        before, self._cause = self._cause, cause
        try:
            yield
        finally:
            self._cause = before

    @property
    def _no_cause(self) -> Cause:
        return Cause(NOWHERE, Record(None, None, max(0, self.stream_time_ms)), (None, None))

    def _cross(self, crossing: Crossing, node: t.Node, record: Record[Any, Any]) -> None:
        topic = names.internal(self.application_id, crossing.topic)
        child = crossing.child
        messages: Sequence[tuple[bytes | None, bytes | None]]
        if crossing.kind == "group":
            assert isinstance(child, t.TableAggregate)
            sender = AggregateTable(child, self)
            messages = _all_of(child, group_messages(sender, record))
        elif crossing.kind == "subscribe":
            assert isinstance(child, t.ForeignKeyJoin)
            messages = _all_of(child, subscription_messages(child, record))
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
        """Write changes of a processor's store to the changelog too."""
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
                with self._because(self._no_cause):
                    try:
                        with _telling(node, f"in a timer of {clock} time at {now_ms} ms"):
                            operator.fire(clock, now_ms)
                    except OperatorFailed as failure:
                        self._fail(failure)

    def _made(self, node: t.Node) -> Operator[Any]:
        if isinstance(node, t.TableTransform):
            return _TransformTable(node, self)
        if isinstance(node, t.Process):
            return _ProcessRecords(node, self)
        if isinstance(node, t.TableAggregate):
            return GroupOfTable(node, self)
        if isinstance(node, t.ForeignKeyJoin):
            return JoinByReference(node, self)
        if isinstance(node, t.Aggregate) and is_cached(node, self._program):
            return CachedFold(node, self)
        operator = operator_for(node, self)
        assert operator is not None, f"{node} cannot run after a stateful operator"
        return operator


def _all_of(node: t.Node, made: Iterator[Message]) -> list[Message]:
    try:
        return list(made)
    except Exception as error:
        raise OperatorFailed(node.name, error) from error


def _written(serde: Serde[Any] | None, part: Any) -> bytes | None:
    try:
        return natural_bytes(part) if serde is None else serde.encode(part)
    except Exception:  # it is part of the error, which is reported
        return None


@contextmanager
def _telling(node: t.Node, when: str) -> Iterator[None]:
    """An error here belongs to the node and not to a record; a forwarded record may have failed elsewhere."""
    try:
        yield
    except OperatorFailed as failure:
        raise failure.during(f"{when} of {node.name}") from failure.reason
    except Exception as error:
        raise OperatorFailed(node.name, error, when) from error


class _Placed:
    """A processor that also knows its partition."""

    _engine: Any

    @property
    def partition(self) -> int | None:
        found: int | None = self._engine.partition
        return found


class _ProcessRecords(_Placed, ProcessRecords[t.Process]):
    pass


class _TransformTable(_Placed, TransformTable):
    pass


class _RowsAsState(State):
    """The rows of a global table, for lookups."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(None, None)
        self._found = rows

    def with_timestamp(self, key: Any) -> tuple[Any, int]:
        return self._found.get(key), -1
