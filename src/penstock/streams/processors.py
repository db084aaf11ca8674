"""Processors handle single records with state and timers, where the DSL has no operator.

    class Deduplicate(Processor[str, Event, str, Event]):
        def init(self, context):
            self.seen = context.store("seen")

        def process(self, record):
            if self.seen.get(record.value.id) is None:
                self.seen.put(record.value.id, record.timestamp_ms)
                self.context.forward(record)

One processor object gets the records of many keys, one after the other, in the order of their partition. Its
attributes are lost when the task moves to another worker; its stores are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeVar

from penstock.streams.nouns import Duration, Record, Windowed

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Clock = Literal["stream", "wall"]


class KeyValueState(Protocol[K, V]):
    """A key-value store, as a processor sees it."""

    def get(self, key: K) -> V | None: ...

    def put(self, key: K, value: V | None) -> None:
        """None deletes the key."""

    def delete(self, key: K) -> V | None:
        """Delete a key and return its last value."""

    def items(self, first: K | None = None, last: K | None = None) -> Iterator[tuple[K, V]]:
        """All rows in the order of their serialized keys; `first` and `last` limit the range, both included."""


class WindowState(Protocol[K, V]):
    """A window store, as a processor sees it."""

    def get(self, key: K, start_ms: int) -> V | None: ...

    def put(self, key: K, value: V | None, start_ms: int) -> None: ...

    def fetch(self, key: K, first_ms: int, last_ms: int) -> Iterator[tuple[int, V]]:
        """The windows of a key that start within these times, both included, in order: (start, value)."""

    def items(self) -> Iterator[tuple[Windowed[K], V]]: ...


class SessionState(Protocol[K, V]):
    """A session store, as a processor sees it."""

    def get(self, key: Windowed[K]) -> V | None: ...

    def put(self, key: Windowed[K], value: V | None) -> None: ...

    def delete(self, key: Windowed[K]) -> None: ...

    def find(self, key: K, first_end_ms: int, last_start_ms: int) -> Iterator[tuple[Windowed[K], V]]:
        """The sessions of a key that end no earlier and start no later than these times."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Context(Protocol[K, V]):
    """What a processor can use: the current record's position, its stores, and `forward`."""

    application_id: str

    def forward(self, record: Record[K, V]) -> None: ...

    def store(self, name: str) -> Any:
        """A store that the processor was declared with: a `KeyValueState`, `WindowState` or `SessionState`."""

    def schedule(self, every: Duration, callback: Callable[[int], None], *, clock: Clock = "stream") -> Timer:
        """Call `callback(time in ms)` whenever stream time (or the wall clock) has advanced by `every`."""

    @property
    def stream_time_ms(self) -> int:
        """The greatest timestamp seen; -1 before the first record."""

    @property
    def wall_time_ms(self) -> int: ...

    @property
    def topic(self) -> str | None:
        """The topic of the current record; None in a timer."""

    @property
    def partition(self) -> int | None: ...

    @property
    def offset(self) -> int | None: ...


class Transformer(Generic[K, V, V2]):
    """Base class for `table.transform_values(...)`: computes the values of a table, with state."""

    context: Context[Any, Any]
    """Set before `init` is called. It cannot forward records: each row has exactly one value."""

    def init(self, context: Context[Any, Any]) -> None:
        """Called before the first change: look up stores, set timers."""

    def transform(self, key: K, value: V | None) -> V2 | None:
        """The new value of a changed key; None deletes it. `value` is None if the key was deleted."""
        raise TypeError(f"{type(self).__qualname__} must define `transform`")

    def close(self) -> None:
        """Called after the last change."""


class Processor(Generic[K, V, K2, V2]):
    """Base class of processors. Only `process` is required."""

    context: Context[K2, V2]
    """Set before `init` is called."""

    def init(self, context: Context[K2, V2]) -> None:
        """Called before the first record: look up stores, set timers."""

    def process(self, record: Record[K, V]) -> None:
        raise TypeError(f"{type(self).__qualname__} must define `process`")

    def close(self) -> None:
        """Called after the last record."""
