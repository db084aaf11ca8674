"""What flows through a topology: records, changes of a table, windowed keys.

Time is event time in milliseconds since 1970, as in Kafka. Durations given by users are seconds or a `timedelta`;
only this module converts them to milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as _replace
from datetime import timedelta
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.client.argument_types import quoted
from penstock.client.errors import PenstockError

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Headers: TypeAlias = tuple[tuple[str, "bytes | None"], ...]
"""Names and values in their original order; a name may occur more than once."""

Duration: TypeAlias = "float | timedelta"
"""Seconds, or a `timedelta`."""


class TopologyError(PenstockError, ValueError):
    """A topology is invalid: a duplicate name, an unknown type, an impossible window."""


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """A record. It is immutable: `with_...` returns a changed copy."""

    key: K
    value: V
    timestamp_ms: int = 0
    headers: Headers = ()

    def with_key(self, key: K2) -> Record[K2, V]:
        return Record(key, self.value, self.timestamp_ms, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        return Record(self.key, value, self.timestamp_ms, self.headers)

    def with_timestamp(self, timestamp_ms: int) -> Record[K, V]:
        return _replace(self, timestamp_ms=timestamp_ms)

    def with_headers(
        self, headers: Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]
    ) -> Record[K, V]:
        return _replace(self, headers=headers_of(headers))

    def header(self, name: str) -> bytes | None:
        """The last value under this name, like Kafka's `lastHeader`; None if there is none."""
        return next((value for found, value in reversed(self.headers) if found == name), None)


@dataclass(frozen=True, slots=True, order=True)
class Windowed(Generic[K]):
    """A key within a window: the key of a windowed table.

    A window of fixed size ends before `end_ms`. A session includes it: it is the time of its last record.
    """

    key: K
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Change(Generic[V]):
    """A change of one key of a table; None means no value."""

    new: V | None
    old: V | None
    is_latest: bool = True
    """Whether this is the key's current value. A versioned table also accepts older values, which only change its
    history."""

    @property
    def counts(self) -> bool:
        """Whether the change is visible to consumers that do not query the history."""
        return self.is_latest and not (self.new is None and self.old is None)


def headers_of(
    given: Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] | None,
) -> Headers:
    if given is None:
        return ()
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise TopologyError(f"headers must be a dict or a list of (name, value) pairs, not {quoted(given)}")
    return tuple((name, value) for name, value in pairs)


def milliseconds(duration: Duration, what: str, *, at_least: int = 0) -> int:
    """Convert a duration to whole milliseconds. The error names `what`."""
    seconds: Any = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TopologyError(f"{what} must be seconds or a timedelta, not {duration!r}")
    exact = seconds * 1000
    whole = round(exact)
    if abs(exact - whole) > 1e-6:
        raise TopologyError(f"{what} must be whole milliseconds, not {duration!r}")
    if whole < at_least:
        least = "negative" if at_least == 0 else f"less than {at_least} ms"
        raise TopologyError(f"{what} cannot be {least}, but is {duration!r}")
    return whole
