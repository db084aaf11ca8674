"""A topology: what a program computes, as frozen nodes. This module does not depend on Spark, bytes or brokers.

A node refers to its parents. `Topology` keeps the nodes in the order of their creation, parents before children.
There are two kinds of edges: a **stream** carries records, a **table** carries changes (key, new value, old value).
Each node below says what it takes and what it emits.

Rules for all nodes:

- `key` and `value` are the serdes of what the node *emits*; None means that no type was declared. The DSL has already
  rejected unknown types where bytes are read back (a store, a repartitioned stream); a sink may write such values by
  their Python type (`serdes.natural_bytes`).
- Every `Function` is called as `function(key, *values)`, and omits the key if the user's function does not take it.
  `function.call` is the user's object, by which the compiler may recognise `str.split`.
- A record keeps its timestamp and headers unless the node says otherwise. Records of a stateful node have the headers
  of the record that caused them.
- Records with a None key cannot be aggregated or joined: they are dropped.
- If the parent of a stateful node may have changed the key, records are repartitioned. This is implied; a
  `Repartition` node exists only if the user asked for one.
- `store` is the name under which a table's state can be queried. A table without one need not be stored.

`interpret.py` defines the exact meaning of each node, record by record.
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
    """A step of a program. Nodes are compared by identity."""

    name: str
    parents: tuple[Node, ...] = ()
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    gives: ClassVar[Gives] = "stream"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


# Sources and sinks.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Source(Node):
    """Topics to a stream. `pattern` is a regular expression over topic names, used if `topics` is empty."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    timestamp: Function | None = None
    """The event time in ms from (key, value); by default the record's timestamp. Records with a negative time are
    dropped."""
    reset: Literal["earliest", "latest"] | timedelta | None = None
    """Where to start without a committed offset, or how long ago; None uses the app's `auto.offset.reset`."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GlobalTable(Node):
    """A topic with a full copy on every worker. Its records are read before any other record is processed."""

    gives: ClassVar[Gives] = "global table"
    topic: str
    store: str


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Sink(Node):
    """A stream to a topic: a name, or a function of (key, value). A tombstone stays a tombstone."""

    topic: str | Function
    partition: Function | None = None
    """The partition of (key, value), with the number of partitions as the last argument; by default from the key's
    bytes."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Repartition(Node):
    """A stream through the internal topic `<application.id>-<name>-repartition`. Records do not change. Records with
    a None key go to any partition."""

    partitions: int | None = None
    partition: Function | None = None


# Stateless operators.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Filter(Node):
    """Stream to stream: records for which the function of (value) is true, or with `negated` false."""

    function: Function
    negated: bool = False


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Map(Node):
    """Stream to stream, one record for each.

    `result` is what the function of (value) returns: the new `value`, the new `key`, a `pair` of both, or a whole
    `record` (a `nouns.Record`; then the function also takes only a Record).
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
    """Stream to the same stream: the function of (value) is called for its side effect. `foreach` is a Peek without
    children."""

    function: Function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Merge(Node):
    """Merges streams. Records of different parents have no order."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Split(Node):
    """Splits a stream by predicates of (value): each record goes to the first that matches. Its children are `Branch`
    nodes."""

    predicates: tuple[Function, ...]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Branch(Node):
    """One branch of a `Split`: the records of the predicate with this index; None for records that matched no
    predicate."""

    index: int | None


# Streams to tables.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ToTable(Node):
    """A stream as changes of a table: the last value of each key; None deletes it. A parent that is a `Source` of one
    topic is its own changelog.

    With `history_ms` the table is versioned, and so are tables derived from it value by value: it keeps the values of
    a key for that long. Its last value is the one with the latest timestamp; an older record changes the history
    only. Changes of the history are not changes to table joins and groups (KIP-914), but they are to a stream.
    Records older than the history are dropped.
    """

    gives: ClassVar[Gives] = "table"
    store: str
    history_ms: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Aggregate(Node):
    """Aggregates records of streams by key (and window) into a table. Records with a None value are dropped.

    `count`: the number of records, an int. `reduce`: the first value, then `folds[0](aggregate, value)`. `aggregate`:
    `initial()`, then `folds[i](aggregate, value)` for a record of `parents[i]`; several parents are a cogroup. If a
    fold returns None, the aggregate is deleted.

    With `windows` the table's key is a `Windowed`. A record counts in every open window that contains its time. A
    window closes when stream time, the greatest timestamp this node has seen, has passed its end by more than the
    grace period. Sessions that a record connects are merged with `merger(aggregate, aggregate)` (a reduce uses its
    fold, a count the sum). The old sessions are deleted, and these changes come before the new session's.

    The timestamp of a change is the greatest timestamp of its records (for a session: its end). With `emit` = `close`
    each window is emitted once when it closes, in the order of their ends, without updates.
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
    """Table to table: the keys whose value satisfies the function of (value); other keys are deleted."""

    gives: ClassVar[Gives] = "table"
    function: Function
    negated: bool = False
    store: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableMap(Node):
    """Table to table: the function of (value) for each value; it is never called with None."""

    gives: ClassVar[Gives] = "table"
    function: Function
    store: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableAggregate(Node):
    """Regroups and aggregates a table. `selector` of (value) returns the pair (group key, value). A pair with a None
    key or value belongs to no group.

    A change first removes the old value from its group, `subtractor(aggregate, value)`, then adds the new value to
    its group, `adder(aggregate, value)`. Each emits a change, or both one change if the group is the same. `count`:
    the number of rows. `reduce`: starts with the first value. `aggregate`: starts with `initial()`. Nothing is
    subtracted from a group that does not exist.
    """

    gives: ClassVar[Gives] = "table"
    kind: Literal["count", "reduce", "aggregate"]
    selector: Function
    selected: Serde[Any] | None = None
    """The serde of the selected values, which are repartitioned to their group."""
    store: str
    initial: Callable[[], Any] | None = None
    adder: Function | None = None
    subtractor: Function | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Suppress(Node):
    """Table to the same table, later and less often.

    `until_window_closes`: the last value of each window, once the window has closed. Otherwise each key waits
    `limit_ms` of stream time after its first buffered change, and then emits its last one. At most `max_records` and
    `max_bytes` are buffered; beyond that the oldest are emitted early, or the program fails if `full` = `stop`.
    """

    gives: ClassVar[Gives] = "table"
    until_window_closes: bool
    limit_ms: int = 0
    """The grace period of the windows."""
    max_records: int | None = None
    max_bytes: int | None = None
    full: Literal["emit", "stop"] = "emit"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ToStream(Node):
    """Changes of a table as records of the new value: None for a deleted key. `selector` of (value) returns another
    key."""

    selector: Function | None = None


# Joins. The parents are (left, right); a joiner is a function of (left value, right value).


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamJoin(Node):
    """Joins two streams: each pair of records with the same key whose times are `within` the window, once.

    The timestamp is the greater of the two. Stream time is the greatest timestamp of either side. A record's window
    closes when stream time has passed its end and the grace period.

    `left` also emits left records without a match, with None for the right side, and `outer` those of either side:
    once the window closes, in order of time. A record that arrives after its window closed has no match: it is
    dropped, or emitted at once if it would be emitted alone. None values and None keys are dropped, except that
    `left` emits a left record with a None key at once, and `outer` one of either side.
    """

    kind: JoinKind
    within: JoinWindows
    joiner: Function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamTableJoin(Node):
    """Joins a stream with a table: each left record with the table's current value for its key. A change of the table
    emits nothing. `left` uses None for missing rows, also for a None key. Left records with a None value are dropped.

    A versioned table is joined with the value it had at the record's time. With `grace_ms` (KIP-923) a record waits
    until stream time, the greatest timestamp of a left record, has passed it by that much, so that late table changes
    count; records that arrive later are joined at once.
    """

    kind: Literal["inner", "left"]
    joiner: Function
    grace_ms: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GlobalJoin(Node):
    """Joins a stream with a `GlobalTable` by the key that `selector` of (value) returns. Otherwise like a table."""

    kind: Literal["inner", "left"]
    selector: Function
    joiner: Function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableJoin(Node):
    """Joins two tables by key: a change of either side changes the result. `inner` has the keys of both, `left` those
    of the left table, `outer` those of either. The timestamp is the greater of both rows'."""

    gives: ClassVar[Gives] = "table"
    kind: JoinKind
    joiner: Function
    store: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ForeignKeyJoin(Node):
    """Joins a table with another by a foreign key: `selector` of (left value) returns the right table's key; the
    result has the left table's keys. A change of the right table changes every left row that refers to it. The
    timestamp is the right change's own; after a left change it is the greater of both rows'."""

    gives: ClassVar[Gives] = "table"
    kind: Literal["inner", "left"]
    selector: Function
    joiner: Function
    store: str | None = None


# Processors.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Process(Node):
    """A stream through a user's processor: `processor()` creates one (`processors.Processor`). It may read and write
    `stores` and forward any number of records, also from timers. With `keeps_key` the key cannot change."""

    processor: Callable[[], Any]
    stores: tuple[Store[Any, Any], ...] = ()
    keeps_key: bool = False


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableTransform(Process):
    """Table to table, each value by a user's transformer: `processor()` creates one (`processors.Transformer`). It
    may read and write `stores`, and is also called for deleted keys, with None."""

    gives: ClassVar[Gives] = "table"
    keeps_key: bool = True
    store: str | None = None


def history_of(node: Node) -> int | None:
    """How long a table keeps older values, in ms; None if it is not versioned."""
    while isinstance(node, TableFilter | TableMap | TableTransform):
        node = node.parents[0]
    return node.history_ms if isinstance(node, ToTable) else None


def is_own_changelog(node: Node) -> bool:
    """A table read from one topic uses it as its changelog."""
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
"""Stateful nodes. `GlobalJoin` is not one: its table is on every worker."""


@dataclass(eq=False)
class Topology:
    """All nodes of a program, parents before children. Only the DSL adds nodes."""

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
        """The node that owns each named store: tables and processors."""
        return dict(self._stores())

    def store_of_processor(self, name: str) -> Store[Any, Any] | None:
        """The store of a processor by its name; None if the store belongs to a table."""
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
