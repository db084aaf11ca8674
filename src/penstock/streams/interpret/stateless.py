"""Stateless operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.client.argument_types import quoted
from penstock.streams import topology as t
from penstock.streams.interpret.operators import Operator
from penstock.streams.nouns import Record

TIME_MAX_MS = 9_223_372_036_854_775  # in microseconds it still fits into 64 bits, as in Spark


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
                yield record_made(self.node.function.call(record), self.node)


class FlatMapRecords(Operator[t.FlatMap]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        for made in several(self.node.function(record.key, record.value), self.node):
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
    """Merge and repartition: records do not change."""

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        yield record


class SplitRecords(Operator[t.Split]):
    """Emits pairs of a branch's index and a record, for its branches."""

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


def several(made: Any, node: t.Node) -> list[Any]:
    """Check the result of a `flat_map` function. Text is iterable too, but its characters are never intended."""
    if isinstance(made, str | bytes):
        raise TypeError(f"{node.name}: the function must return a list, not {quoted(made)}")
    return list(made)


def pair(made: Any, node: t.Node) -> tuple[Any, Any]:
    """Check the result of a function that changes the key."""
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(
            f"{node.name}: a function of key and value must return pairs (key, value), not {quoted(made)}; "
            "to change values alone use map_values or flat_map_values"
        )
    return made


def record_made(made: Any, node: t.Node, how: str = "the function must return") -> Record[Any, Any]:
    """Check that a record made by the user can be written to a topic."""
    if not isinstance(made, Record):
        raise TypeError(f"{node.name}: {how} a Record, not {quoted(made)}")
    time_ms: Any = made.timestamp_ms
    if not hasattr(time_ms, "__index__"):
        raise TypeError(f"{node.name}: the timestamp of a Record is in whole ms, not {quoted(time_ms)}")
    if not 0 <= time_ms <= TIME_MAX_MS:
        raise ValueError(f"{node.name}: a Record has a timestamp of 0 to {TIME_MAX_MS} ms, not {time_ms}")
    for header in made.headers:
        if not _is_header(header):
            raise TypeError(
                f"{node.name}: a header is a pair of its name and its bytes or None, not {quoted(header)}"
            )
    return made


def _is_header(header: Any) -> bool:
    return (
        isinstance(header, tuple)
        and len(header) == 2
        and isinstance(header[0], str)
        and (header[1] is None or isinstance(header[1], bytes))
    )
