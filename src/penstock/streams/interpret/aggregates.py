"""Aggregates of streams into tables: over all time, in windows of fixed size, sliding windows and sessions.

Stream time is the greatest timestamp seen by this node. A window closes when its end is further back than the grace
period; then no record changes it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.streams import topology as t
from penstock.streams.interpret.operators import TableOperator, Tables
from penstock.streams.nouns import Change, Headers, Record, Windowed
from penstock.streams.windows import (
    NEVER_MS,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)

Changed = Iterator[Record[Any, Change[Any]]]


class AggregateRecords(TableOperator[t.Aggregate]):
    """Without windows; the base of the windowed ones."""

    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        if record.key is None or record.value is None:
            return
        old, timestamp_ms = self.state.with_timestamp(record.key)
        aggregate = self._fold(record, parent, old)
        timestamp_ms = max(timestamp_ms, record.timestamp_ms)
        yield from self.state.change(record.key, aggregate, timestamp_ms, record.headers)

    def _fold(self, record: Record[Any, Any], parent: int, aggregate: Any) -> Any:
        """The next aggregate; None starts a new one."""
        if self.node.kind == "count":
            return (aggregate or 0) + 1
        if aggregate is None:
            if self.node.initial is None:
                return record.value
            aggregate = self.node.initial()
        return self.node.folds[parent](record.key, aggregate, record.value)

    def _merge(self, key: Any, first: Any, second: Any) -> Any:
        """The aggregate of two merged sessions; None for the first starts a new one."""
        if self.node.kind == "count":
            return (first or 0) + second
        if self.node.kind == "reduce":
            return second if first is None else self.node.folds[0](key, first, second)
        assert self.node.initial is not None
        assert self.node.merger is not None
        return self.node.merger(key, self.node.initial() if first is None else first, second)


class AggregateWindows(AggregateRecords):
    """Common to all windows: stream time, and emitting closed windows if requested."""

    def __init__(self, node: t.Aggregate, tables: Tables) -> None:
        super().__init__(node, tables)
        self.stream_time_ms = -1
        self._waiting: dict[bytes, Windowed[Any]] = {}

    def receive(self, record: Record[Any, Any], parent: int) -> Changed:
        if record.key is None or record.value is None:
            return
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp_ms)
        for change in self._update(record, parent):
            if self.node.emit == "update":
                yield change
            else:
                self._wait(change)
        if self.node.emit == "close":
            yield from self._closed(record.headers)

    def advance(self, stream_time_ms: int) -> Changed:
        self.stream_time_ms = max(self.stream_time_ms, stream_time_ms)
        yield from self._closed(())

    def waits_until_ms(self) -> int | None:
        assert self.node.windows is not None
        end_ms = min((window.end_ms for window in self._waiting.values()), default=None)
        return None if end_ms is None else end_ms + self.node.windows.grace_ms

    def _update(self, record: Record[Any, Any], parent: int) -> Changed:
        raise TypeError("each kind of windows says how a record changes them")

    def _is_closed(self, window: Windowed[Any]) -> bool:
        raise TypeError("each kind of windows says when one is closed")

    def _wait(self, change: Record[Any, Change[Any]]) -> None:
        place = self.state.place(change.key)
        if change.value.new is None:
            self._waiting.pop(place, None)
        else:
            self._waiting[place] = change.key

    def _closed(self, headers: Headers) -> Changed:
        """Windows that have closed since, ordered by start (sessions: by end), then by key; each is emitted once."""
        closed = [(place, window) for place, window in self._waiting.items() if self._is_closed(window)]
        by_end = isinstance(self.node.windows, SessionWindows)
        for place, window in sorted(
            closed, key=lambda pair: (pair[1].end_ms if by_end else pair[1].start_ms, pair[0])
        ):
            del self._waiting[place]
            value, timestamp_ms = self.state.with_timestamp(window)
            yield Record(window, Change(value, None), timestamp_ms, headers)


class AggregateTimeWindows(AggregateWindows):
    """Tumbling, hopping and unlimited windows."""

    def _update(self, record: Record[Any, Any], parent: int) -> Changed:
        windows = self.node.windows
        assert isinstance(windows, TimeWindows | UnlimitedWindows)
        for start_ms in windows.starts(record.timestamp_ms):
            window = Windowed(record.key, start_ms, min(start_ms + windows.size_ms, NEVER_MS))
            if self._is_closed(window):
                continue
            old, timestamp_ms = self.state.with_timestamp(window)
            aggregate = self._fold(record, parent, old)
            yield from self.state.change(
                window, aggregate, max(timestamp_ms, record.timestamp_ms), record.headers
            )

    def _is_closed(self, window: Windowed[Any]) -> bool:
        assert self.node.windows is not None
        return window.end_ms <= self.stream_time_ms - self.node.windows.grace_ms


class AggregateSlidingWindows(AggregateWindows):
    """A window that ends with each record, and one that starts right after it if later records fall into it.

    A window is created when a record shows that it is not empty, from the aggregates of its neighbours, so each
    window has seen exactly its records in order of arrival. No window starts before the epoch: records of the first
    `difference_ms` share the window that starts there.
    """

    def __init__(self, node: t.Aggregate, tables: Tables) -> None:
        super().__init__(node, tables)
        self._starts: dict[Any, set[int]] = {}

    def _update(self, record: Record[Any, Any], parent: int) -> Changed:
        windows = self.node.windows
        assert isinstance(windows, SlidingWindows)
        time_ms, difference_ms = record.timestamp_ms, windows.difference_ms
        if self._is_closed(Windowed(record.key, time_ms, time_ms + difference_ms)):
            return
        known = self._starts.setdefault(self._place(record.key), set())
        starts = sorted(start for start in known if time_ms - 2 * difference_ms <= start <= time_ms + 1)
        own_start = max(0, time_ms - difference_ms)
        left, right, previous_ms = self._neighbours(record, starts, own_start)
        for start in starts:
            if own_start < start <= time_ms:
                stored = self.state.with_timestamp(self._window(record.key, start))
                yield from self._change(record, parent, start, stored)
        # The window right after the previous record is no longer empty.
        is_near = previous_ms is not None and previous_ms + 1 + difference_ms >= time_ms
        if is_near and previous_ms is not None and previous_ms + 1 not in starts:
            yield from self._change(record, parent, previous_ms + 1, (None, -1))
        # The window that ends with this record.
        if own_start in starts:
            own = self.state.with_timestamp(self._window(record.key, own_start))
        elif left is not None and previous_ms is not None and previous_ms >= own_start:
            own = (left, time_ms)
        else:
            own = (None, -1)
        yield from self._change(record, parent, own_start, own)
        # The window right after it, if it already contains later records.
        if time_ms + 1 not in starts and right is not None and right[1] > time_ms:
            known.add(time_ms + 1)
            window = self._window(record.key, time_ms + 1)
            yield from self.state.change(window, right[0], right[1], record.headers)

    def _neighbours(
        self, record: Record[Any, Any], starts: list[int], own_start: int
    ) -> tuple[Any, tuple[Any, int] | None, int | None]:
        """What new windows are made of, before this record: the aggregate of the last window that ends before it,
        that of the last window that contains its time, and the time of the record before it."""
        left: Any = None
        right: tuple[Any, int] | None = None
        previous_ms: int | None = None
        for start in starts:
            aggregate, latest_ms = self.state.with_timestamp(self._window(record.key, start))
            if start < own_start:
                left, previous_ms = aggregate, latest_ms
            elif start == own_start and latest_ms < record.timestamp_ms:
                previous_ms = latest_ms
            elif start <= record.timestamp_ms:
                right = (aggregate, latest_ms)
        return left, right, previous_ms

    def _change(
        self, record: Record[Any, Any], parent: int, start_ms: int, stored: tuple[Any, int]
    ) -> Changed:
        window = self._window(record.key, start_ms)
        if self._is_closed(window):
            return
        aggregate = self._fold(record, parent, stored[0])
        self._starts[self._place(record.key)].add(start_ms)
        yield from self.state.change(window, aggregate, max(stored[1], record.timestamp_ms), record.headers)

    def _window(self, key: Any, start_ms: int) -> Windowed[Any]:
        assert isinstance(self.node.windows, SlidingWindows)
        return Windowed(key, start_ms, start_ms + self.node.windows.difference_ms)

    def _place(self, key: Any) -> bytes:
        return self.state.place(Windowed(key, 0, 0))

    def _is_closed(self, window: Windowed[Any]) -> bool:
        assert self.node.windows is not None
        return window.end_ms < self.stream_time_ms - self.node.windows.grace_ms


class AggregateSessions(AggregateWindows):
    """A record joins all sessions of its key within the gap; they are merged."""

    def __init__(self, node: t.Aggregate, tables: Tables) -> None:
        super().__init__(node, tables)
        self._sessions: dict[bytes, list[Windowed[Any]]] = {}

    def _update(self, record: Record[Any, Any], parent: int) -> Changed:
        windows = self.node.windows
        assert isinstance(windows, SessionWindows)
        time_ms = record.timestamp_ms
        sessions = self._sessions.setdefault(self.state.place(Windowed(record.key, 0, 0)), [])
        met = [
            session
            for session in sessions
            if session.end_ms >= time_ms - windows.gap_ms and session.start_ms <= time_ms + windows.gap_ms
        ]
        met.sort(key=lambda session: (session.end_ms, session.start_ms))
        merged = Windowed(
            record.key,
            min([time_ms, *(session.start_ms for session in met)]),
            max([time_ms, *(session.end_ms for session in met)]),
        )
        if self._is_closed(merged):
            return
        aggregate: Any = None
        for session in met:
            aggregate = self._merge(record.key, aggregate, self.state.get(session))
        aggregate = self._fold(record, parent, aggregate)  # first: sessions stay as they are if it fails
        for session in met:
            sessions.remove(session)
            if session != merged:
                yield from self.state.change(session, None, session.end_ms, record.headers)
        sessions.append(merged)
        yield from self.state.change(merged, aggregate, merged.end_ms, record.headers)

    def _is_closed(self, window: Windowed[Any]) -> bool:
        windows = self.node.windows
        assert isinstance(windows, SessionWindows)
        return window.end_ms < self.stream_time_ms - windows.grace_ms - windows.gap_ms


def aggregating(node: t.Aggregate, tables: Tables) -> AggregateRecords:
    """The operator for a node's windows."""
    match node.windows:
        case None:
            return AggregateRecords(node, tables)
        case TimeWindows() | UnlimitedWindows():
            return AggregateTimeWindows(node, tables)
        case SlidingWindows():
            return AggregateSlidingWindows(node, tables)
        case SessionWindows():
            return AggregateSessions(node, tables)
