"""What every operator of the interpreter is: a thing that receives a record and gives any number of them.

The engine asks for one record after the other and sends each on before it asks for the next, so an operator's state
is that of the moment in which it gives a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from penstock.streams.interpret.state import State, VersionedState
from penstock.streams.nouns import Record
from penstock.streams.topology import Aggregate, Node, TableAggregate, history_of

N = TypeVar("N", bound=Node)


class Tables(Protocol):
    """Where the state of tables is found: the state of a node that gives a table. And where the record is from."""

    def state_of(self, node: Node, key: Any) -> State:
        """In which the row of `key` is as all records before have made it. Of other rows that is not said: where
        updates are held back, it takes some work to bring a row up to date."""

    @property
    def topic(self) -> str | None:
        """Where the record at hand was read; None where there is none at hand."""


class Operator(Generic[N]):
    """One node at work."""

    def __init__(self, node: N, tables: Tables) -> None:
        self.node = node
        self.tables = tables

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        """What comes of a record from the parent with this index."""
        raise TypeError(f"{self.node!r} receives nothing")

    def advance(self, stream_time_ms: int) -> Iterator[Record[Any, Any]]:
        """What comes of time alone: records of other keys have shown that it is this late. Here one operator sees all
        keys and hears of it by `receive`; where keys are spread over many, it has to be told."""
        return iter(())

    def waits_until_ms(self) -> int | None:
        """The stream time beyond which `advance` may give something; None where nothing waits."""
        return None


class TableOperator(Operator[N]):
    """An operator that gives a table, and holds it."""

    def __init__(self, node: N, tables: Tables) -> None:
        super().__init__(node, tables)
        history_ms = history_of(node)
        self.state = (
            State(node.key, node.value, is_folded=isinstance(node, Aggregate | TableAggregate))
            if history_ms is None
            else VersionedState(node.key, node.value, history_ms)
        )
