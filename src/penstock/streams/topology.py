"""A topology: what a program means to compute, as frozen nodes. Nothing here knows Spark, bytes or a broker.

A node names its parents, so a node and all that is behind it is one value; `Topology` keeps them in the order in
which they were made, which is an order of dependence. There are two kinds of edges: a **stream** carries records, a
**table** carries changes (key, new value, old value). Each node below says what it takes and what it gives.

What holds for all of them:
- `key` and `value` are the serdes of what the node *gives*; None means that nobody named a type. Whoever has to read
  such bytes again (a store, a repartitioned stream) was refused by the DSL already; a sink may write them by their
  nature (`serdes.natural_bytes`).
- Every `Function` is called as `function(key, *values)` and leaves the key out itself where its owner did not ask for
  it; `function.call` is the object that the user gave, by which a compiler may recognise `str.split`.
- A record keeps timestamp and headers on its way unless the node says otherwise. Records that a stateful node gives
  have the headers of the record that made them.
- A record whose key is None cannot be aggregated, and none of either side can be joined by it: such records are
  dropped.
- Where a stateful node's parent may have changed the key, records travel to where their key lives. This is implied:
  there is a `Repartition` node only where the user asked for one.
- `store` is the name under which a table's state can be asked for; a table without one need not be kept.
  `interpret.py` is the exact meaning of each node, record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal

from penstock.streams.functions import Function
from penstock.streams.serdes import Serde
from penstock.streams.stores import Store
from penstock.streams.windows import JoinWindows, Windows

Gives = Literal["stream", "table", "global table"]
JoinKind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A step. Two nodes are the same only if they are one object."""

    name: str
    parents: tuple[Node, ...] = ()
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    gives: ClassVar[Gives] = "stream"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


# Where records come from, and where they go.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Source(Node):
    """Topics in, a stream out. `pattern` is a regular expression over topic names where there are no `topics`."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    timestamp: Function | None = None
    """Event time in ms of (key, value); without it the record's own timestamp. A record with less than 0 is
    dropped."""
    reset: Literal["earliest", "latest"] | timedelta | None = None
    """Where to begin without a committed offset, or how long ago; None leaves it to the app's `auto.offset.reset`."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GlobalTable(Node):
    """A topic that every worker holds as a whole. Its records are there before any other is processed."""

    gives: ClassVar[Gives] = "global table"
    topic: str
    store: str


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Sink(Node):
    """A stream into a topic, which is a name or a function of (key, value). A tombstone stays one."""

    topic: str | Function
    partition: Function | None = None
    """The partition of (key, value), with the number of partitions as last argument; else by the key's bytes."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Repartition(Node):
    """A stream through the internal topic `<application.id>-<name>-repartition`; records themselves do not change.
    Records with a None key pass (to any partition)."""

    partitions: int | None = None
    partition: Function | None = None


# Streams of single records, without state.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Filter(Node):
    """Stream to stream: records for which the function of (value) is true, or with `negated` false."""

    function: Function
    negated: bool = False


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Map(Node):
    """Stream to stream, one record for each, of the function of (value).

    `result` says what it returns: the new `value`, the new `key`, a `pair` of both, or a whole `record` (a
    `nouns.Record`; then the function takes a Record too, and nothing else).
    """

    function: Function
    result: Literal["value", "key", "pair", "record"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FlatMap(Node):
    """Stream to stream, any number of records for each: the function of (value) returns an iterable of `result`."""

    function: Function
    result: Literal["value", "pair"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Peek(Node):
    """Stream to the same stream: the function of (value) is called for its side effect. `foreach` is one of these
    without children."""

    function: Function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Merge(Node):
    """Two or more streams as one. There is no order between records of different parents."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Split(Node):
    """A stream cut by predicates of (value): each record goes to the first that holds. Its children are
    `Branch`es."""

    predicates: tuple[Function, ...]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Branch(Node):
    """One part of its parent, a `Split`: records of the predicate with this index; None is what no predicate took."""

    index: int | None


# Streams to tables.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ToTable(Node):
    """A stream as changes of a table: the last value of each key, None deletes. A parent that is a `Source` of one
    topic is its own changelog.

    With `history_ms` the table is versioned, and so is what is made of it value by value: it keeps the values that a
    key had for that long, its last value is that of the latest timestamp, and a record of before goes into the history.
    Changes of the history are no changes to joins with tables and to groups (KIP-914), but to a stream they are. What
    is older than the history when it comes is dropped."""

    gives: ClassVar[Gives] = "table"
    store: str
    history_ms: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Aggregate(Node):
    """Records of streams, folded by key (and window) into a table. Records with a None value are dropped.

    `count`: the number of records, an int. `reduce`: the first value, then `folds[0](aggregate, value)`. `aggregate`:
    begins with `initial()`, then `folds[i](aggregate, value)` for a record of `parents[i]`; more than one parent is a
    cogroup. An aggregate that a fold makes None is deleted.

    With `windows` the table's key is a `Windowed`, and each record counts in every window that holds its time and is
    not closed: stream time, the greatest timestamp this node has seen, closes a window that ended more than the grace
    before. Sessions that a record connects become one by `merger(aggregate, aggregate)` (of a reduce: its fold; of a
    count: their sum), and the old ones are deleted, changes that come out before the new one's.

    The timestamp of a change is the greatest of the records in it (of a session: its end). `emit` = `close` gives
    each window once, in order of its end, when it is closed, and no updates.
    """

    gives: ClassVar[Gives] = "table"
    kind: Literal["count", "reduce", "aggregate"]
    store: str
    initial: Callable[[], Any] | None = None
    folds: tuple[Function, ...] = ()
    merger: Function | None = None
    windows: Windows | None = None
    emit: Literal["update", "close"] = "update"


# Tables.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableFilter(Node):
    """Table to table: the keys whose value satisfies the function of (value); others are deleted."""

    gives: ClassVar[Gives] = "table"
    function: Function
    negated: bool = False
    store: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableMap(Node):
    """Table to table: the function of (value), for each value; it is never called with None."""

    gives: ClassVar[Gives] = "table"
    function: Function
    store: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableAggregate(Node):
    """A table, grouped anew and folded. `selector` of (value) gives the pair (group's key, value in it); a pair
    whose key or value is None belongs to no group.

    A change first takes the old value out of its group, `subtractor(aggregate, value)`, then puts the new value into
    its group, `adder(aggregate, value)`; either gives a change of this table, or both one if the group is the same.
    `count`: their number, `reduce`: begins with the first value, `aggregate`: begins with `initial()`. Nothing is
    subtracted from a group that is not there.
    """

    gives: ClassVar[Gives] = "table"
    kind: Literal["count", "reduce", "aggregate"]
    selector: Function
    selected: Serde[Any] | None = None
    """Of the values that the selector gives: they travel to their group."""
    store: str
    initial: Callable[[], Any] | None = None
    adder: Function | None = None
    subtractor: Function | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Suppress(Node):
    """Table to the same table, later and less often.

    `until_window_closes`: the last value of each window of a windowed table, once the window is closed. Otherwise
    each key waits `limit_ms` of stream time after its first change that waits, and then gives its last one. At most
    `max_records` and `max_bytes` of them wait; beyond that the oldest are given early, or with `full` = `stop` the
    program fails.
    """

    gives: ClassVar[Gives] = "table"
    until_window_closes: bool
    limit_ms: int = 0
    """For windows: the grace, which is how long after its end a window may change."""
    max_records: int | None = None
    max_bytes: int | None = None
    full: Literal["emit", "stop"] = "emit"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ToStream(Node):
    """Changes of a table as records of their new value: None where a key was deleted. `selector` of (value) gives
    another key."""

    selector: Function | None = None


# Joins. The parents are (left, right); a joiner is a function of (left value, right value).


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamJoin(Node):
    """Two streams: each pair of records with the same key whose times are `within` the window, once.

    The timestamp is the greater of the two. Stream time is the greatest timestamp of either side; a record's window
    is closed when stream time has passed the end of its window and the grace.

    `left` also gives a left record that met none, with None for the right one, and `outer` either side's: once its
    window is closed, in order of time. A record whose window has closed before it came meets none: it is dropped, or
    where it would be given alone it is given at once. None values are dropped, None keys too; but `left` gives a left
    record with a None key at once and `outer` one of either side.
    """

    kind: JoinKind
    within: JoinWindows
    joiner: Function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamTableJoin(Node):
    """A stream with a table: each left record with the value that the table has for its key at that moment; a change
    of the table gives nothing. `left` gives None for what the table has not, a None key included. A left record with
    a None value is dropped.

    A versioned table is asked for the value that it had at the time of the record. With `grace_ms` (KIP-923) a record
    waits until stream time, the greatest timestamp of a left record, has passed it by that, so that values of before
    may still come; records that come later than that are joined at once."""

    kind: Literal["inner", "left"]
    joiner: Function
    grace_ms: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GlobalJoin(Node):
    """A stream with a `GlobalTable`, by `selector` of (value), which gives the table's key. Otherwise as with a
    table."""

    kind: Literal["inner", "left"]
    selector: Function
    joiner: Function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableJoin(Node):
    """Two tables by key: a change of either side changes the result. `inner` has the keys that both have, `left`
    those of the left one, `outer` those of either. The timestamp is the greater of both sides'."""

    gives: ClassVar[Gives] = "table"
    kind: JoinKind
    joiner: Function
    store: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ForeignKeyJoin(Node):
    """A table with another, by `selector` of (left value), which gives the right table's key; the result has the left
    table's keys. A change of the right table changes the result of every left row that refers to it. The timestamp is
    the right change's own, and after a left change the greater of both rows'."""

    gives: ClassVar[Gives] = "table"
    kind: Literal["inner", "left"]
    selector: Function
    joiner: Function
    store: str | None = None


# Processors.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Process(Node):
    """A stream through a processor of the user: `processor()` makes one (`processors.Processor`), which may read and
    write `stores` and forward any number of records, also when its timers fire. With `keeps_key` the key cannot
    change."""

    processor: Callable[[], Any]
    stores: tuple[Store[Any, Any], ...] = ()
    keeps_key: bool = False


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableTransform(Process):
    """Table to table, each value by a transformer of the user: `processor()` makes one (`processors.Transformer`),
    which may read and write `stores`. It is also asked about keys that are deleted, with None."""

    gives: ClassVar[Gives] = "table"
    keeps_key: bool = True
    store: str | None = None


def history_of(node: Node) -> int | None:
    """For how long a table keeps values of before, in ms; None of one that is not versioned."""
    while isinstance(node, TableFilter | TableMap | TableTransform):
        node = node.parents[0]
    return node.history_ms if isinstance(node, ToTable) else None


def is_own_changelog(node: Node) -> bool:
    """A table of one topic has its changelog already."""
    if not isinstance(node, ToTable):
        return False
    parent = node.parents[0]
    return isinstance(parent, Source) and len(parent.topics) == 1 and parent.timestamp is None


STATEFUL = (
    Aggregate,
    ForeignKeyJoin,
    Process,
    StreamJoin,
    StreamTableJoin,
    Suppress,
    TableAggregate,
    TableJoin,
    ToTable,
)  # and TableTransform, which is a Process
"""Nodes that remember. `GlobalJoin` asks a table which is everywhere."""


@dataclass(eq=False)
class Topology:
    """All nodes of a program, parents before children. The DSL adds; everybody else reads."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def sources(self) -> list[Source]:
        return [node for node in self.nodes if isinstance(node, Source)]

    @property
    def global_tables(self) -> list[GlobalTable]:
        return [node for node in self.nodes if isinstance(node, GlobalTable)]

    @property
    def sinks(self) -> list[Sink]:
        return [node for node in self.nodes if isinstance(node, Sink)]

    @property
    def operators(self) -> list[Node]:
        return [node for node in self.nodes if not isinstance(node, Source | GlobalTable | Sink)]

    @property
    def stores(self) -> dict[str, Node]:
        """The node that owns each named state: tables by their store, processors by each of theirs."""
        return dict(self._stores())

    def store_of_processor(self, name: str) -> Store[Any, Any] | None:
        """The store of a processor by its name; None where that is a table's."""
        found = (store for node in self.nodes if isinstance(node, Process) for store in node.stores)
        return next((store for store in found if store.name == name), None)

    def _stores(self) -> Iterator[tuple[str, Node]]:
        for node in self.nodes:
            store = getattr(node, "store", None)
            if store is not None:
                yield store, node
            if isinstance(node, Process):
                yield from ((store.name, node) for store in node.stores)

    def children(self, parent: Node) -> list[Node]:
        return [node for node in self.nodes if parent in node.parents]

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)
