"""Processors, their stores and their timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.streams import topology as t
from penstock.streams.interpret.operators import Operator, TableOperator, Tables
from penstock.streams.interpret.state import State
from penstock.streams.interpret.stateless import record_made
from penstock.streams.nouns import Change, Duration, Record, TopologyError, Windowed, milliseconds
from penstock.streams.processors import Clock
from penstock.streams.serdes import SessionWindowed, TimeWindowed
from penstock.streams.stores import Store

P = TypeVar("P", bound=t.Process)


class KeyValues:
    """A key-value store; see `processors.KeyValueState`."""

    def __init__(self, store: Store[Any, Any]) -> None:
        self._state = State(store.key, store.value)

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def put(self, key: Any, value: Any) -> None:
        self._state.put(key, value, 0)

    def delete(self, key: Any) -> Any:
        old = self._state.get(key)
        self._state.put(key, None, 0)
        return old

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        begin = b"" if first is None else self._state.place(first)
        end = None if last is None else self._state.place(last)
        for key, value in list(self._state.items()):
            if self._state.place(key) >= begin and (end is None or self._state.place(key) <= end):
                yield key, value


class _Expiring:
    """Common to window and session stores: rows expire by the store's retention and observed stream time.

    Observed stream time is the greatest time put into this store, as in Kafka Streams. An expired row is hidden from
    reads at once. It is deleted when observed stream time has advanced by half of the retention since rows were last
    deleted, as Kafka Streams drops whole segments: a store holds rows of at most one and a half retention periods,
    and a put does not look at all rows. Nothing is written to the changelog; the retention of its topic does the
    same.
    """

    _state: State

    def __init__(self, store: Store[Any, Any]) -> None:
        assert store.retention_ms is not None
        self._retention_ms = store.retention_ms
        self._keys = State(store.key, None)
        self._latest_ms = -1
        self._deleted_at_ms = -1

    def expire(self) -> None:
        """Delete all expired rows now."""
        self._deleted_at_ms = self._latest_ms
        self._state.forget(self._is_gone)

    def _observe(self, time_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, time_ms)
        if self._latest_ms - self._deleted_at_ms >= max(1, self._retention_ms // 2):
            self.expire()

    def _is_gone(self, window: Windowed[Any]) -> bool:
        return self._time_ms(window) <= self._latest_ms - self._retention_ms

    def _time_ms(self, window: Windowed[Any]) -> int:
        raise NotImplementedError


class WindowValues(_Expiring):
    """A window store; see `processors.WindowState`. Rows expire by the start of their window."""

    def __init__(self, store: Store[Any, Any]) -> None:
        super().__init__(store)
        assert store.window_ms is not None
        self._window_ms = store.window_ms
        self._state = State(TimeWindowed(store.key, store.window_ms), store.value)

    def get(self, key: Any, start_ms: int) -> Any:
        window = self._window(key, start_ms)
        return None if self._is_gone(window) else self._state.get(window)

    def put(self, key: Any, value: Any, start_ms: int) -> None:
        self._observe(start_ms)
        window = self._window(key, start_ms)
        if not self._is_gone(window):
            self._state.put(window, value, start_ms)

    def fetch(self, key: Any, first_ms: int, last_ms: int) -> Iterator[tuple[int, Any]]:
        place = self._keys.place(key)
        for window, value in self.items():
            if self._keys.place(window.key) == place and first_ms <= window.start_ms <= last_ms:
                yield window.start_ms, value

    def items(self) -> Iterator[tuple[Windowed[Any], Any]]:
        for window, value in list(self._state.items()):
            if not self._is_gone(window):
                yield window, value

    def _window(self, key: Any, start_ms: int) -> Windowed[Any]:
        return Windowed(key, start_ms, start_ms + self._window_ms)

    def _time_ms(self, window: Windowed[Any]) -> int:
        return window.start_ms


class SessionValues(_Expiring):
    """A session store; see `processors.SessionState`. Rows expire by the end of their session."""

    def __init__(self, store: Store[Any, Any]) -> None:
        super().__init__(store)
        self._state = State(SessionWindowed(store.key), store.value)

    def get(self, key: Windowed[Any]) -> Any:
        return None if self._is_gone(key) else self._state.get(key)

    def put(self, key: Windowed[Any], value: Any) -> None:
        self._observe(key.end_ms)
        if not self._is_gone(key):
            self._state.put(key, value, key.end_ms)

    def delete(self, key: Windowed[Any]) -> None:
        self._state.put(key, None, key.end_ms)

    def find(self, key: Any, first_end_ms: int, last_start_ms: int) -> Iterator[tuple[Windowed[Any], Any]]:
        place = self._keys.place(key)
        for session, value in list(self._state.items()):
            is_met = session.end_ms >= first_end_ms and session.start_ms <= last_start_ms
            if is_met and not self._is_gone(session) and self._keys.place(session.key) == place:
                yield session, value

    def _time_ms(self, window: Windowed[Any]) -> int:
        return window.end_ms


def store_for(store: Store[Any, Any]) -> KeyValues | WindowValues | SessionValues:
    match store.kind:
        case "key-value":
            return KeyValues(store)
        case "window":
            return WindowValues(store)
        case "session":
            return SessionValues(store)


@dataclass(slots=True, eq=False)
class _Timer:
    """Fires once when it is due, however late; then waits for the next multiple of its interval."""

    clock: Clock
    every_ms: int
    next_ms: int
    callback: Callable[[int], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def fire(self, now_ms: int) -> None:
        missed = (now_ms - self.next_ms) // self.every_ms
        self.next_ms += (missed + 1) * self.every_ms
        self.callback(now_ms)


class ProcessorEngine(Tables, Protocol):
    """What a processor needs from its engine."""

    application_id: str
    wall_time_ms: int

    @property
    def topic(self) -> str | None: ...

    @property
    def offset(self) -> int | None: ...

    def stream_time_of(self, node: t.Node) -> int: ...

    def store_named(self, store: Store[Any, Any]) -> Any: ...

    def send_on(self, node: t.Node, record: Record[Any, Any]) -> None: ...


class ProcessRecords(Operator[P]):
    """Runs a processor. Records that it forwards are processed at once."""

    def __init__(self, node: P, engine: ProcessorEngine) -> None:
        super().__init__(node, engine)
        self._engine = engine
        self._record: Record[Any, Any] | None = None
        self._stores = {store.name: engine.store_named(store) for store in node.stores}
        self.timers: list[_Timer] = []
        self.application_id = engine.application_id
        self._processor: Any = node.processor()
        self._processor.context = self
        self._processor.init(self)

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Any]]:
        self._record = record
        try:
            self._processor.process(record)
        finally:
            self._record = None
        return iter(())

    def fire(self, clock: Clock, now_ms: int) -> None:
        for timer in list(self.timers):
            if timer.clock == clock and not timer.is_cancelled and timer.next_ms <= now_ms:
                timer.fire(now_ms)
        self.timers = [timer for timer in self.timers if not timer.is_cancelled]

    def close(self) -> None:
        self._processor.close()

    # The processor's `Context`.

    def forward(self, record: Record[Any, Any]) -> None:
        record_made(record, self.node, "a processor forwards")
        if self.node.keeps_key and self._record is not None and record.key != self._record.key:
            raise TopologyError(f"{self.node.name} must not change keys: use process to change them")
        self._engine.send_on(self.node, record)

    def store(self, name: str) -> Any:
        if name not in self._stores:
            declared = ", ".join(self._stores) or "none"
            raise TopologyError(
                f"{self.node.name} was declared without the store {name}; its stores: {declared}"
            )
        return self._stores[name]

    def schedule(
        self, every: Duration, callback: Callable[[int], None], *, clock: Clock = "stream"
    ) -> _Timer:
        every_ms = milliseconds(every, "the interval of a timer", at_least=1)
        if clock not in ("stream", "wall"):
            raise TopologyError(f"clock must be `stream` or `wall`, not {clock!r}")
        # Stream time starts with the first record, which fires at once; the wall clock has been running.
        next_ms = 0 if clock == "stream" else self._engine.wall_time_ms + every_ms
        timer = _Timer(clock, every_ms, next_ms, callback)
        self.timers.append(timer)
        return timer

    @property
    def stream_time_ms(self) -> int:
        return self._engine.stream_time_of(self.node)

    @property
    def wall_time_ms(self) -> int:
        return self._engine.wall_time_ms

    @property
    def topic(self) -> str | None:
        return self._engine.topic

    @property
    def partition(self) -> int | None:
        return None if self._engine.topic is None else 0

    @property
    def offset(self) -> int | None:
        return self._engine.offset


class TransformTable(ProcessRecords[t.TableTransform], TableOperator[t.TableTransform]):
    """Runs a transformer: one value for each change of the table; None deletes."""

    def receive(self, record: Record[Any, Any], parent: int) -> Iterator[Record[Any, Change[Any]]]:
        self._record = record
        try:
            new = self._processor.transform(record.key, record.value.new)
        finally:
            self._record = None
        yield from self.state.change(record.key, new, record.timestamp_ms, record.headers)

    def forward(self, record: Record[Any, Any]) -> None:
        raise TopologyError(f"{self.node.name}: a transformer cannot forward records: return the value")
