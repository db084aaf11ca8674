"""The interface of the interpreter's operators: each receives a record and emits any number of records.

The engine forwards each emitted record before it asks for the next, so an operator's state is that of the moment in
which it emits a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from penstock.streams.interpret.state import State, VersionedState
from penstock.streams.nouns import Record
from penstock.streams.topology import Aggregate, Node, TableAggregate, history_of

N = TypeVar("N", bound=Node)


class Tables(Protocol):
    """Access to the state of tables, by the node that emits the table, and to the position of the current record."""

    def state_of(self, node: Node, key: Any) -> State:
        """The table, with the row of `key` up to date. Other rows may not be: where updates are buffered, bringing a
        row up to date takes work."""

    @property
    def topic(self) -> str | None:
        """The position of the current record; None if there is none."""


class Operator(Generic[N]):
    """The operator of one node."""

    def __init__(self, node: N, tables: Tables) -> None:
        self.node = node
        self.tables = tables

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        """The output for a record from the parent with this index."""
        raise TypeError(f"{self.node!r} has no input")

    def advance(self, stream_time_ms: int) -> Iterator[Record[Any, Any]]:
        """The output when stream time advances because of records of other keys. Here one operator sees all keys and
        learns of it by `receive`; where keys are spread over many operators, it has to be called."""
        return iter(())

    def waits_until_ms(self) -> int | None:
        """The stream time after which `advance` may emit something; None if nothing is buffered."""
        return None


class TableOperator(Operator[N]):
    """An operator that emits a table and holds its state."""

    def __init__(self, node: N, tables: Tables) -> None:
        super().__init__(node, tables)
        history_ms = history_of(node)
        self.state = (
            State(node.key, node.value, is_folded=isinstance(node, Aggregate | TableAggregate))
            if history_ms is None
            else VersionedState(node.key, node.value, history_ms)
        )
