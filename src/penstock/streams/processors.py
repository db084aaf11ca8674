"""Processors: records by hand, with state and timers, where the DSL has no word for it.

    class Deduplicate(Processor[str, Event, str, Event]):
        def init(self, context):
            self.seen = context.store("seen")

        def process(self, record):
            if self.seen.get(record.value.id) is None:
                self.seen.put(record.value.id, record.timestamp_ms)
                self.context.forward(record)

One processor object sees the records of many keys, one after the other, in the order of their partition. What it
keeps in its own attributes is lost whenever the program moves; what it keeps in stores is not.
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
    """A key-value store, as a processor has it."""

    def get(self, key: K) -> V | None: ...

    def put(self, key: K, value: V | None) -> None:
        """None deletes."""

    def delete(self, key: K) -> V | None:
        """What was there."""

    def items(self, first: K | None = None, last: K | None = None) -> Iterator[tuple[K, V]]:
        """All that is there, in order of the keys' bytes; `first` and `last` are the ends of a range, both in it."""


class WindowState(Protocol[K, V]):
    """A window store, as a processor has it."""

    def get(self, key: K, start_ms: int) -> V | None: ...

    def put(self, key: K, value: V | None, start_ms: int) -> None: ...

    def fetch(self, key: K, first_ms: int, last_ms: int) -> Iterator[tuple[int, V]]:
        """Windows of a key that begin within these times, both included, in order: (start, value)."""

    def items(self) -> Iterator[tuple[Windowed[K], V]]: ...


class SessionState(Protocol[K, V]):
    """A session store, as a processor has it."""

    def get(self, key: Windowed[K]) -> V | None: ...

    def put(self, key: Windowed[K], value: V | None) -> None: ...

    def delete(self, key: Windowed[K]) -> None: ...

    def find(self, key: K, first_end_ms: int, last_start_ms: int) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of a key that end no earlier and begin no later than these times."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Context(Protocol[K, V]):
    """What a processor is given: where it is, its stores, and the way onward."""

    application_id: str

    def forward(self, record: Record[K, V]) -> None: ...

    def store(self, name: str) -> Any:
        """One of the stores that the processor was declared with: a `KeyValueState`, `WindowState` or
        `SessionState`."""

    def schedule(self, every: Duration, callback: Callable[[int], None], *, clock: Clock = "stream") -> Timer:
        """Call `callback(time in ms)` whenever stream time (or the wall clock) has advanced by `every`."""

    @property
    def stream_time_ms(self) -> int:
        """The greatest timestamp seen; -1 before the first record."""

    @property
    def wall_time_ms(self) -> int: ...

    @property
    def topic(self) -> str | None:
        """Where the record at hand was read; None within a timer."""

    @property
    def partition(self) -> int | None: ...

    @property
    def offset(self) -> int | None: ...


class Transformer(Generic[K, V, V2]):
    """The base of what gives a table other values, with state: `table.transform_values(...)`."""

    context: Context[Any, Any]
    """Set before `init` is called. It forwards nothing: there is one value for each."""

    def init(self, context: Context[Any, Any]) -> None:
        """Before the first change: find the stores, set timers."""

    def transform(self, key: K, value: V | None) -> V2 | None:
        """The value of a key whose value has changed; None where there is none, or no more."""
        raise TypeError(f"{type(self).__qualname__} has no method `transform`")

    def close(self) -> None:
        """When no more changes come."""


class Processor(Generic[K, V, K2, V2]):
    """The base of processors; only `process` must be written."""

    context: Context[K2, V2]
    """Set before `init` is called."""

    def init(self, context: Context[K2, V2]) -> None:
        """Before the first record: find the stores, set timers."""

    def process(self, record: Record[K, V]) -> None:
        raise TypeError(f"{type(self).__qualname__} has no method `process`")

    def close(self) -> None:
        """When no more records come."""
