"""Suppress: changes of a table that are buffered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.client.errors import IllegalState
from penstock.streams import topology as t
from penstock.streams.interpret.operators import TableOperator, Tables
from penstock.streams.nouns import Change, Record

_FIXED_BYTES = 8 + 8 + 8 + 4  # when it was buffered, timestamp, offset, partition


class SuppressChanges(TableOperator[t.Suppress]):
    """Buffers the last change of each key, until a time counted from the first."""

    def __init__(self, node: t.Suppress, tables: Tables) -> None:
        super().__init__(node, tables)
        self._waiting: dict[bytes, tuple[int, Record[Any, Change[Any]]]] = {}
        self._sizes: dict[bytes, int] = {}
        """The size of the buffer, if it is limited."""
        self.stream_time_ms = -1

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
        place = self.state.place(record.key)
        since_ms = record.key.end_ms if self.node.until_window_closes else record.timestamp_ms
        if place in self._waiting:
            since_ms = self._waiting[place][0]
        self._waiting[place] = (since_ms, record)
        if self.node.max_bytes is not None:
            self._sizes[place] = self._size(place, record)
        yield from self._due()

    def advance(self, stream_time_ms: int) -> Iterator[Record[Any, Any]]:
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)
        yield from self._due()

    def waits_until_ms(self) -> int | None:
        since_ms = min((since_ms for since_ms, _ in self._waiting.values()), default=None)
        return None if since_ms is None else since_ms + self.node.limit_ms

    def _due(self) -> Iterator[Record[Any, Any]]:
        while self._waiting:
            first = min(self._waiting, key=lambda place: (self._waiting[place][0], place))
            if self._waiting[first][0] > self.stream_time_ms - self.node.limit_ms and not self._is_full():
                return
            _, change = self._waiting.pop(first)
            self._sizes.pop(first, None)
            new = change.value.new
            # A window deleted before it closed was never emitted, so its deletion is not emitted either.
            if new is not None or not self.node.until_window_closes:
                yield from self.state.change(change.key, new, change.timestamp_ms, change.headers)

    def _is_full(self) -> bool:
        records, size = self.node.max_records, self.node.max_bytes
        if records is not None and len(self._waiting) > records:
            most = f"{records} records"
        elif size is not None and sum(self._sizes.values()) > size:
            most = f"{size} bytes"
        else:
            return False
        if self.node.full == "stop":
            raise IllegalState(f"{self.node.name} buffers more than {most}")
        return True

    def _size(self, place: bytes, record: Record[Any, Change[Any]]) -> int:
        """The size of a change as Kafka Streams counts it: key and values (the one emitted last, and the one before
        this if it differs), its position and its headers."""
        assert self.node.value is not None
        given, old, new = (
            self.node.value.encode(value) or b""
            for value in (self.state.get(record.key), record.value.old, record.value.new)
        )
        values = len(given) + (0 if given == old else len(old)) + len(new)
        headers = sum(len(name) + len(value or b"") for name, value in record.headers)
        return len(place) + values + len(self.tables.topic or "") + headers + _FIXED_BYTES
