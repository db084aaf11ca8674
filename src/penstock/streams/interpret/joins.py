"""Joins. A record of the left parent has index 0, of the right parent 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.streams import topology as t
from penstock.streams.interpret.operators import Operator, TableOperator, Tables
from penstock.streams.interpret.state import State, VersionedState
from penstock.streams.nouns import Change, Headers, Record

Changed = Iterator[Record[Any, Change[Any]]]

LEFT, RIGHT = 0, 1


@dataclass(slots=True, eq=False)
class _Waiting:
    """A buffered record of one side, which others may still match."""

    key: Any
    value: Any
    timestamp_ms: int
    met: bool


class JoinStreams(Operator[t.StreamJoin]):
    """The records of each side are buffered while a record of the other side that is not late can match them."""

    def __init__(self, node: t.StreamJoin, tables: Tables) -> None:
        super().__init__(node, tables)
        left, right = node.parents
        self._places = State(left.key, None)
        self._serdes = (left.value, right.value)
        self._waiting: tuple[dict[bytes, list[_Waiting]], ...] = ({}, {})
        self.stream_time_ms = -1

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
        if record.value is None:
            return
        gives_alone = self._gives_alone(parent)
        if record.key is None:
            if gives_alone:
                yield record.with_value(self._joined(record.key, parent, record.value, None))
            return
        if record.timestamp_ms == self.stream_time_ms:
            yield from self._unmet(record.headers)
        if self._is_closed(parent, record.timestamp_ms):
            if gives_alone:
                yield record.with_value(self._joined(record.key, parent, record.value, None))
            return
        before_ms, after_ms = self._reach(parent)
        place = self._places.place(record.key)
        met = False
        for other in self._waiting[1 - parent].get(place, ()):
            if record.timestamp_ms - before_ms <= other.timestamp_ms <= record.timestamp_ms + after_ms:
                met = other.met = True
                value = self._joined(record.key, parent, record.value, self._read(1 - parent, other.value))
                yield Record(record.key, value, max(record.timestamp_ms, other.timestamp_ms), record.headers)
        kept = _Waiting(
            record.key, self._write(parent, record.value), record.timestamp_ms, met or not gives_alone
        )
        # Records of one key in order of time, equal ones in order of arrival.
        line = self._waiting[parent].setdefault(place, [])
        line.append(kept)
        line.sort(key=lambda waiting: waiting.timestamp_ms)

    def advance(self, stream_time_ms: int) -> Iterator[Record[Any, Any]]:
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)
        yield from self._unmet(())

    def waits_until_ms(self) -> int | None:
        """Records that have matched are buffered too; these are the ones to expire."""
        within = self.node.within
        keeps_ms = within.before_ms + within.after_ms
        ends = (
            waiting.timestamp_ms + (keeps_ms if waiting.met else self._reach(side)[1]) + within.grace_ms
            for side, places in enumerate(self._waiting)
            for line in places.values()
            for waiting in line
        )
        return min(ends, default=None)

    def _unmet(self, headers: Headers) -> Iterator[Record[Any, Any]]:
        """Expire records that no other can match any more, and return those without a match."""
        alone = [
            (waiting.timestamp_ms, side, place, waiting)
            for side, places in enumerate(self._waiting)
            for place, line in places.items()
            for waiting in line
            if not waiting.met and self._is_closed(side, waiting.timestamp_ms)
        ]
        alone.sort(key=lambda found: found[:3])
        for timestamp_ms, side, _, waiting in alone:
            waiting.met = True  # one by one: if the joiner fails, the later ones are still to be emitted
            value = self._joined(waiting.key, side, self._read(side, waiting.value), None)
            yield Record(waiting.key, value, timestamp_ms, headers)
        within = self.node.within
        keeps_ms = within.before_ms + within.after_ms + within.grace_ms
        for places in self._waiting:
            for place, line in list(places.items()):
                line[:] = [found for found in line if found.timestamp_ms + keeps_ms >= self.stream_time_ms]
                if not line:
                    del places[place]

    def _gives_alone(self, side: int) -> bool:
        return self.node.kind == "outer" or (self.node.kind == "left" and side == LEFT)

    def _reach(self, side: int) -> tuple[int, int]:
        """How far back and forward a record of this side looks."""
        within = self.node.within
        return (within.before_ms, within.after_ms) if side == LEFT else (within.after_ms, within.before_ms)

    def _is_closed(self, side: int, timestamp_ms: int) -> bool:
        return timestamp_ms + self._reach(side)[1] + self.node.within.grace_ms < self.stream_time_ms

    def _joined(self, key: Any, side: int, own: Any, other: Any) -> Any:
        return self.node.joiner(key, own, other) if side == LEFT else self.node.joiner(key, other, own)

    def _write(self, side: int, value: Any) -> Any:
        serde = self._serdes[side]
        return value if serde is None else serde.encode(value)

    def _read(self, side: int, value: Any) -> Any:
        serde = self._serdes[side]
        return value if serde is None else serde.decode(value)


class JoinTable(Operator[t.StreamTableJoin]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        if parent == RIGHT or record.value is None:
            return
        yield from self._join(record)

    def _join(self, record: Record[Any, Any]) -> Iterator[Record[Any, Any]]:
        state = self.tables.state_of(self.node.parents[1], record.key)
        found = None
        if record.key is not None and isinstance(state, VersionedState):
            found = state.as_of(record.key, record.timestamp_ms)
        elif record.key is not None:
            found = state.get(record.key)
        if found is not None or self.node.kind == "left":
            yield record.with_value(self.node.joiner(record.key, record.value, found))


class JoinTableLater(JoinTable):
    """Records wait for the grace period, in which the table may still get older values."""

    def __init__(self, node: t.StreamTableJoin, tables: Tables) -> None:
        super().__init__(node, tables)
        left = node.parents[0]
        self._places = State(left.key, None)
        self._serdes = (left.value,)
        self._waiting: list[tuple[int, bytes, Any, Any, Headers]] = []
        """Timestamp, serialized key, key, value, headers; in order of arrival."""
        self.stream_time_ms = -1

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        if parent == RIGHT or record.value is None:
            return
        if record.key is None or record.timestamp_ms < self.stream_time_ms - self._grace_ms:
            yield from self._join(record)
            return
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
        (serde,) = self._serdes
        value = record.value if serde is None else serde.encode(record.value)
        place = self._places.place(record.key)
        self._waiting.append((record.timestamp_ms, place, record.key, value, record.headers))
        yield from self._due()

    def advance(self, stream_time_ms: int) -> Iterator[Record[Any, Any]]:
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)
        yield from self._due()

    def waits_until_ms(self) -> int | None:
        first_ms = min((waiting[0] for waiting in self._waiting), default=None)
        return None if first_ms is None else first_ms + self._grace_ms - 1

    @property
    def _grace_ms(self) -> int:
        assert self.node.grace_ms is not None
        return self.node.grace_ms

    def _due(self) -> Iterator[Record[Any, Any]]:
        until_ms = self.stream_time_ms - self._grace_ms
        due = [waiting for waiting in self._waiting if waiting[0] <= until_ms]
        due.sort(key=lambda waiting: waiting[:2])
        later = [waiting for waiting in self._waiting if waiting[0] > until_ms]
        (serde,) = self._serdes
        for at, (timestamp_ms, _, key, written, headers) in enumerate(due, 1):
            self._waiting = due[at:] + later  # if the joiner fails, the later ones are still to be emitted
            value = written if serde is None else serde.decode(written)
            yield from self._join(Record(key, value, timestamp_ms, headers))


def joining_table(node: t.StreamTableJoin, tables: Tables) -> JoinTable:
    return JoinTable(node, tables) if node.grace_ms is None else JoinTableLater(node, tables)


class JoinGlobalTable(Operator[t.GlobalJoin]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        if parent == RIGHT or record.value is None:
            return
        key = self.node.selector(record.key, record.value)
        found = None if key is None else self.tables.state_of(self.node.parents[1], key).get(key)
        if found is not None or self.node.kind == "left":
            yield record.with_value(self.node.joiner(record.key, record.value, found))


class JoinTables(TableOperator[t.TableJoin]):
    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        if not record.value.counts:
            return
        key = record.key
        (left, left_ms), (right, right_ms) = (
            self.tables.state_of(node, key).with_timestamp(key) for node in self.node.parents
        )
        joined = None
        if _is_there(self.node.kind, left, right):
            joined = self.node.joiner(key, left, right)
        timestamp_ms = max(record.timestamp_ms, left_ms, right_ms)
        yield from self.state.change(key, joined, timestamp_ms, record.headers)


class JoinByForeignKey(TableOperator[t.ForeignKeyJoin]):
    """Keeps which rows of the left table refer to each key of the right table."""

    def __init__(self, node: t.ForeignKeyJoin, tables: Tables) -> None:
        super().__init__(node, tables)
        self._right = State(node.parents[1].key, None)
        self._referring: dict[bytes, dict[bytes, Any]] = {}
        self._refers: dict[bytes, Any] = {}

    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        if not record.value.counts:
            return
        if parent == RIGHT:
            referring = self._referring.get(self._right.place(record.key), {})
            for place in sorted(referring):
                yield from self._join(referring[place], record.key, record)
            return
        place = self.state.place(record.key)
        before = self._refers.pop(place, None)
        if before is not None:
            del self._referring[self._right.place(before)][place]
        foreign = None if record.value.new is None else self.node.selector(record.key, record.value.new)
        if foreign is not None:
            self._refers[place] = foreign
            self._referring.setdefault(self._right.place(foreign), {})[place] = record.key
        is_gone = foreign is None and self.node.kind == "inner"
        yield from self._join(record.key, foreign, self._later(record, before if is_gone else foreign))

    def _join(self, key: Any, foreign: Any, record: Record[Any, Any]) -> Changed:
        """The row of one left key from the current state of both tables, with the time of `record`."""
        left_table, right_table = self.node.parents
        left = self.tables.state_of(left_table, key).get(key)
        right = None if foreign is None else self.tables.state_of(right_table, foreign).get(foreign)
        joined = self.node.joiner(key, left, right) if _is_there(self.node.kind, left, right) else None
        yield from self.state.change(key, joined, record.timestamp_ms, record.headers)

    def _later(self, record: Record[Any, Any], foreign: Any) -> Record[Any, Any]:
        """A change of the left table has the later time of both rows, a change of the right table its own."""
        if foreign is None:
            return record
        _, right_ms = self.tables.state_of(self.node.parents[1], foreign).with_timestamp(foreign)
        return record.with_timestamp(max(record.timestamp_ms, right_ms))


def _is_there(kind: t.JoinKind, left: Any, right: Any) -> bool:
    """Whether a join has a row, by the sides that exist."""
    match kind:
        case "inner":
            return left is not None and right is not None
        case "left":
            return left is not None
        case "outer":
            return left is not None or right is not None
