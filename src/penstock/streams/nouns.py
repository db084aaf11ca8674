"""What flows through a topology: records, changes of a table, keys with their window.

Time is event time in milliseconds since 1970, as everywhere in Kafka; a length of time that a user gives is in
seconds or a `timedelta`, and becomes whole milliseconds here and nowhere else.
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
"""Names and values in the order in which they were written; a name may occur more than once."""

Duration: TypeAlias = "float | timedelta"
"""Seconds, or a `timedelta`."""


class TopologyError(PenstockError, ValueError):
    """A topology cannot mean anything: a name is used twice, a type is not known, a window makes no sense."""


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """One record on its way. It is never changed: `with_...` gives another one."""

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
        """The last value under this name, as Kafka's `lastHeader`; None where there is none."""
        return next((value for found, value in reversed(self.headers) if found == name), None)


@dataclass(frozen=True, slots=True, order=True)
class Windowed(Generic[K]):
    """A key within one window: the key of a windowed table.

    Windows of fixed size end before `end_ms`; a session ends with it, for that is when its last record happened.
    """

    key: K
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Change(Generic[V]):
    """What happened to one key of a table; None stands for no value."""

    new: V | None
    old: V | None
    is_latest: bool = True
    """Whether the key has this value now. A versioned table also takes values of before, which change its history."""

    @property
    def counts(self) -> bool:
        """Whether the table is another one now, as all see it who do not ask for its history."""
        return self.is_latest and not (self.new is None and self.old is None)


def headers_of(
    given: Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] | None,
) -> Headers:
    if given is None:
        return ()
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise TopologyError(f"headers are a dict, or a list of pairs (name, value), not {quoted(given)}")
    return tuple((name, value) for name, value in pairs)


def milliseconds(duration: Duration, what: str, *, at_least: int = 0) -> int:
    """Whole milliseconds of what a user gave, or an error that names it."""
    seconds: Any = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TopologyError(f"{what} is in seconds or a timedelta, not {duration!r}")
    exact = seconds * 1000
    whole = round(exact)
    if abs(exact - whole) > 1e-6:
        raise TopologyError(f"{what} must be whole milliseconds, and {duration!r} is not")
    if whole < at_least:
        least = "negative" if at_least == 0 else f"less than {at_least} ms"
        raise TopologyError(f"{what} cannot be {least}, and {duration!r} is")
    return whole
