"""Operators that look at one record at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.streams import topology as t
from penstock.streams.interpret.operators import Operator
from penstock.streams.nouns import Record


class FilterRecords(Operator[t.Filter]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        if bool(self.node.function(record.key, record.value)) != self.node.negated:
            yield record


class MapRecords(Operator[t.Map]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        match self.node.result:
            case "value":
                yield record.with_value(self.node.function(record.key, record.value))
            case "key":
                yield record.with_key(self.node.function(record.key, record.value))
            case "pair":
                key, value = pair(self.node.function(record.key, record.value), self.node)
                yield record.with_key(key).with_value(value)
            case "record":
                made = self.node.function.call(record)
                if not isinstance(made, Record):
                    raise TypeError(f"{self.node.name}: the function must return a Record, not {made!r}")
                yield made


class FlatMapRecords(Operator[t.FlatMap]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        for made in self.node.function(record.key, record.value):
            if self.node.result == "value":
                yield record.with_value(made)
            else:
                key, value = pair(made, self.node)
                yield record.with_key(key).with_value(value)


class PeekAtRecords(Operator[t.Peek]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        self.node.function(record.key, record.value)
        yield record


class PassRecords(Operator[t.Node]):
    """Merge, repartition: the records do not change."""

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        yield record


class SplitRecords(Operator[t.Split]):
    """Gives pairs of a branch's index and a record, which only branches understand."""

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        taken = (
            index
            for index, predicate in enumerate(self.node.predicates)
            if predicate(record.key, record.value)
        )
        yield record.with_value((next(taken, None), record.value))


class TakeBranch(Operator[t.Branch]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        index, value = record.value
        if index == self.node.index:
            yield record.with_value(value)


def pair(made: Any, node: t.Node) -> tuple[Any, Any]:
    """What a function must give that changes the key."""
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(
            f"{node.name}: a function of key and value returns pairs (key, value), and not {made!r}; "
            "to change values alone use map_values or flat_map_values"
        )
    return made
