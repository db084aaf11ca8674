"""Operators whose rows are sent to other keys: groups of a table and foreign key joins, in two halves around a
shuffle.

In a foreign key join the key of a left row is sent to the right row it refers to, with a hash of the left value
(`subscribe`). The answer comes back with the hash (`answer`) and counts only if the left row is unchanged, so an
outdated answer that arrives late is ignored. Kafka Streams does the same (KIP-213).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from penstock.streams import topology as t
from penstock.streams.compile.cut import ANSWERED, LEFT_CHANGED, RIGHT_CHANGED
from penstock.streams.interpret.operators import TableOperator, Tables
from penstock.streams.interpret.state import State
from penstock.streams.interpret.tables import AggregateTable
from penstock.streams.nouns import Change, Record

Changed = Iterator[Record[Any, Change[Any]]]
Message = tuple[bytes, bytes]
"""Key and value of a record of an internal topic."""

_LENGTH = struct.Struct(">i")
_NONE = -1
MARK_BYTES = 16


class GroupOfTable(AggregateTable):
    """The half of a TableAggregate that holds the groups. It receives what `group_messages` sent: raw key and value."""

    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        assert self.node.key is not None
        assert self.node.selected is not None
        removed, added = _unframed(record.value)
        group = self.node.key.decode(record.key)
        yield from self._update(
            record, group, self.node.selected.decode(removed), self.node.selected.decode(added)
        )


def group_messages(operator: AggregateTable, record: Record[Any, Change[Any]]) -> Iterator[Message]:
    """The other half: the values that a change of the table removes from groups and adds to them."""
    node = operator.node
    assert node.key is not None
    assert node.selected is not None
    if not record.value.counts:
        return
    old = operator._pair(record.key, record.value.old)
    new = operator._pair(record.key, record.value.new)
    old_group = None if old is None else node.key.encode(old[0])
    new_group = None if new is None else node.key.encode(new[0])
    removed = None if old is None else node.selected.encode(old[1])
    added = None if new is None else node.selected.encode(new[1])
    if old_group is not None and old_group == new_group:
        yield old_group, _framed(removed, added)
        return
    if old_group is not None:
        yield old_group, _framed(removed, None)
    if new_group is not None:
        yield new_group, _framed(None, added)


class JoinByReference(TableOperator[t.ForeignKeyJoin]):
    """All four inputs of a foreign key join, of which a place has some: left rows and answers in the place of left
    keys, right rows and subscriptions in the place of right keys. For the latter two it emits raw answers."""

    def __init__(self, node: t.ForeignKeyJoin, tables: Tables) -> None:
        super().__init__(node, tables)
        right = node.parents[1]
        self._rights = State(right.key, None)
        self._subscribers: dict[bytes, dict[bytes, bytes]] = {}
        """By serialized right key: the hashes of left rows that refer to it, by their keys."""

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        if isinstance(record.value, Change) and not record.value.counts:
            return
        if parent == LEFT_CHANGED:
            yield from self._left_changed(record)
        elif parent == ANSWERED:
            yield from self._answered(record)
        elif parent == RIGHT_CHANGED:
            yield from self._right_changed(record)
        else:
            yield from self._subscribed(record)

    def _left_changed(self, record: Record[Any, Any]) -> Changed:
        """Without a foreign key the row is known at once; otherwise its answer follows."""
        key, new = record.key, record.value.new
        if new is None:
            yield from self.state.change(key, None, record.timestamp_ms, record.headers)
        elif self.node.selector(key, new) is None:
            joined = self.node.joiner(key, new, None) if self.node.kind == "left" else None
            yield from self.state.change(key, joined, record.timestamp_ms, record.headers)

    def _answered(self, record: Record[Any, Any]) -> Changed:
        left_node, right_node = self.node.parents
        assert left_node.key is not None
        assert left_node.value is not None
        assert right_node.value is not None
        key = left_node.key.decode(record.key)
        left = self.tables.state_of(left_node, key).get(key)
        if left is None or mark_of(left_node, left) != record.value[:MARK_BYTES]:
            return
        _, data = _unframed(record.value[MARK_BYTES:])
        right = right_node.value.decode(data)
        joined = None
        if right is not None or self.node.kind == "left":
            joined = self.node.joiner(key, left, right)
        yield from self.state.change(key, joined, record.timestamp_ms, record.headers)

    def _right_changed(self, record: Record[Any, Any]) -> Iterator[Record[Any, Any]]:
        right = self.node.parents[1]
        assert right.value is not None
        data = right.value.encode(record.value.new)
        subscribers = self._subscribers.get(self._rights.place(record.key), {})
        for key in sorted(subscribers):
            yield Record(key, subscribers[key] + _framed(None, data), record.timestamp_ms, record.headers)

    def _subscribed(self, record: Record[Any, Any]) -> Iterator[Record[Any, Any]]:
        right_node = self.node.parents[1]
        assert right_node.key is not None
        assert right_node.value is not None
        mark, key = _unframed(record.value)
        assert key is not None
        subscribers = self._subscribers.setdefault(record.key, {})
        if mark is None:
            subscribers.pop(key, None)
            if not subscribers:
                del self._subscribers[record.key]
            return
        subscribers[key] = mark
        right_key = right_node.key.decode(record.key)
        right, right_ms = self.tables.state_of(right_node, right_key).with_timestamp(right_key)
        data = right_node.value.encode(right)
        yield Record(key, mark + _framed(None, data), max(record.timestamp_ms, right_ms), record.headers)


def subscription_messages(node: t.ForeignKeyJoin, record: Record[Any, Change[Any]]) -> Iterator[Message]:
    """The messages of a change of the left table to the right rows it referred to before and refers to now."""
    left, right = node.parents
    assert left.key is not None
    assert right.key is not None
    if not record.value.counts:
        return
    key = left.key.encode(record.key)
    old, new = record.value.old, record.value.new
    before = None if old is None else right.key.encode(node.selector(record.key, old))
    now = None if new is None else right.key.encode(node.selector(record.key, new))
    if before is not None and before != now:
        yield before, _framed(None, key)
    if now is not None:
        yield now, _framed(mark_of(left, new), key)


def mark_of(left: t.Node, value: Any) -> bytes:
    """A hash that shows whether a left row is unchanged."""
    assert left.value is not None
    return blake2b(left.value.encode(value) or b"", digest_size=MARK_BYTES).digest()


def _framed(first: bytes | None, second: bytes | None) -> bytes:
    """Two byte strings, each of which may be missing, as one."""
    head = _LENGTH.pack(_NONE if first is None else len(first)) + (first or b"")
    return head if second is None else head + b"\x01" + second


def _unframed(data: bytes) -> tuple[bytes | None, bytes | None]:
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + max(0, length)
    first = None if length == _NONE else data[_LENGTH.size : end]
    return first, data[end + 1 :] if len(data) > end else None
