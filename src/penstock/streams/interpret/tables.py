"""Operators of tables except joins: each takes changes and holds the table it emits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.streams import topology as t
from penstock.streams.interpret.operators import Operator, TableOperator
from penstock.streams.interpret.stateless import pair
from penstock.streams.nouns import Change, Record

Changed = Iterator[Record[Any, Change[Any]]]


class MakeTable(TableOperator[t.ToTable]):
    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        if record.key is not None:
            yield from self.state.change(record.key, record.value, record.timestamp_ms, record.headers)


class FilterTable(TableOperator[t.TableFilter]):
    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        new = record.value.new
        if new is not None and bool(self.node.function(record.key, new)) == self.node.negated:
            new = None
        yield from self.state.change(record.key, new, record.timestamp_ms, record.headers)


class MapTable(TableOperator[t.TableMap]):
    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        new = record.value.new
        if new is not None:
            new = self.node.function(record.key, new)
        yield from self.state.change(record.key, new, record.timestamp_ms, record.headers)


class AggregateTable(TableOperator[t.TableAggregate]):
    """Removes the old value from its group, then adds the new one: in one change if the group is the same."""

    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        if not record.value.counts:
            return
        old, new = self._pair(record.key, record.value.old), self._pair(record.key, record.value.new)
        if old is not None and new is not None and self.state.place(old[0]) == self.state.place(new[0]):
            yield from self._update(record, new[0], old[1], new[1])
            return
        if old is not None:
            yield from self._update(record, old[0], old[1], None)
        if new is not None:
            yield from self._update(record, new[0], None, new[1])

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        """The group's key and the value; None if there is no value or it belongs to no group."""
        if value is None:
            return None
        made = pair(self.node.selector(key, value), self.node)
        return None if made[0] is None or made[1] is None else made

    def _update(self, record: Record[Any, Any], group: Any, removed: Any, added: Any) -> Changed:
        aggregate, timestamp_ms = self.state.with_timestamp(group)
        timestamp_ms = max(timestamp_ms, record.timestamp_ms)
        if removed is not None and aggregate is not None:
            aggregate = self._subtract(group, aggregate, removed)
        if added is not None:
            aggregate = self._add(group, aggregate, added)
        yield from self.state.change(group, aggregate, timestamp_ms, record.headers)

    def _add(self, group: Any, aggregate: Any, value: Any) -> Any:
        if self.node.kind == "count":
            return (aggregate or 0) + 1
        assert self.node.adder is not None
        if aggregate is None:
            if self.node.initial is None:
                return value
            aggregate = self.node.initial()
        return self.node.adder(group, aggregate, value)

    def _subtract(self, group: Any, aggregate: Any, value: Any) -> Any:
        if self.node.kind == "count":
            return aggregate - 1
        assert self.node.subtractor is not None
        return self.node.subtractor(group, aggregate, value)


class StreamChanges(Operator[t.ToStream]):
    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        new = record.value.new
        key = record.key if self.node.selector is None else self.node.selector(record.key, new)
        yield Record(key, new, record.timestamp_ms, record.headers)
