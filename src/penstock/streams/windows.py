"""Windows: which windows a record belongs to, and when they close.

A window accepts records until stream time (the greatest timestamp seen) has passed its end by the grace period; later
records are dropped. The rules are those of Kafka Streams: windows of fixed size are aligned to the epoch and include
their start but not their end; sliding windows and sessions include both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from penstock.streams.nouns import Duration, TopologyError, milliseconds

NEVER_MS: Final = (1 << 63) - 1
"""The end of a window that never ends: the greatest timestamp in Kafka."""


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of `size_ms` that start every `advance_ms`: tumbling if both are equal, hopping otherwise."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def starts(self, timestamp_ms: int) -> range:
        """The starts of the windows that contain this time, earliest first. No window starts before the epoch."""
        first = max(0, timestamp_ms - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp_ms + 1, self.advance_ms)

    @property
    def is_tumbling(self) -> bool:
        return self.size_ms == self.advance_ms

    def __str__(self) -> str:
        kind = "tumbling" if self.is_tumbling else "hopping"
        advance = "" if self.is_tumbling else f" every {_shown(self.advance_ms)}"
        return f"{kind} {_shown(self.size_ms)}{advance}{_grace(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows `[t - difference_ms, t]` and `[t + 1, t + 1 + difference_ms]` around the time t of each record: each
    set of records no further apart than the difference is the content of one window."""

    difference_ms: int
    grace_ms: int

    def __str__(self) -> str:
        return f"sliding {_shown(self.difference_ms)}{_grace(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Periods of activity: records of a key no further apart than `gap_ms` form one session."""

    gap_ms: int
    grace_ms: int

    def __str__(self) -> str:
        return f"session gap {_shown(self.gap_ms)}{_grace(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window that starts at `start_ms` and never ends. Earlier records belong to no window."""

    start_ms: int

    @property
    def size_ms(self) -> int:
        return NEVER_MS

    @property
    def grace_ms(self) -> int:
        return 0

    def starts(self, timestamp_ms: int) -> range:
        return range(self.start_ms, self.start_ms + (timestamp_ms >= self.start_ms))

    def __str__(self) -> str:
        return f"unlimited{f' from {self.start_ms} ms' if self.start_ms else ''}"


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A left record at time t matches right records within `[t - before_ms, t + after_ms]`."""

    before_ms: int
    after_ms: int
    grace_ms: int

    def __str__(self) -> str:
        return f"within -{_shown(self.before_ms)} +{_shown(self.after_ms)}{_grace(self.grace_ms)}"


Windows: TypeAlias = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows


def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows of one size, one after the other, without overlap."""
    size_ms = milliseconds(size, "the size of a window", at_least=1)
    return TimeWindows(size_ms, size_ms, milliseconds(grace, "the grace"))


def hopping(size: Duration, *, every: Duration, grace: Duration = 0) -> TimeWindows:
    """Overlapping windows of one size: a new window starts `every` this many seconds."""
    size_ms = milliseconds(size, "the size of a window", at_least=1)
    advance_ms = milliseconds(every, "the advance of a window", at_least=1)
    if advance_ms > size_ms:
        raise TopologyError("windows must not leave gaps: `every` must not exceed the size")
    return TimeWindows(size_ms, advance_ms, milliseconds(grace, "the grace"))


def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    """A window for each set of records no further apart than `difference`."""
    return SlidingWindows(
        milliseconds(difference, "the difference of sliding windows"), milliseconds(grace, "the grace")
    )


def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Records of a key no further apart than `gap`. A session grows with new records; two sessions that meet are
    merged."""
    return SessionWindows(
        milliseconds(gap, "the gap of sessions", at_least=1), milliseconds(grace, "the grace")
    )


def unlimited(*, start: datetime | None = None) -> UnlimitedWindows:
    """One window that starts at `start` (by default the epoch) and never ends."""
    if start is None:
        return UnlimitedWindows(0)
    if not isinstance(start, datetime) or start.tzinfo is None:
        raise TopologyError(f"start must be a datetime with a time zone, not {start!r}")
    start_ms = round(start.timestamp() * 1000)
    if start_ms < 0:
        raise TopologyError("a window cannot start before the epoch")
    return UnlimitedWindows(start_ms)


def within(
    difference: Duration | None = None,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = 0,
) -> JoinWindows:
    """How far apart two records may be to match in a join. `before` and `after` set the two sides separately."""
    if difference is None and before is None and after is None:
        raise TopologyError("within needs a difference in seconds, or before=... and after=...")
    fallback = 0 if difference is None else difference
    before_ms = _signed(fallback if before is None else before, "before")
    after_ms = _signed(fallback if after is None else after, "after")
    if before_ms + after_ms < 0:
        raise TopologyError("a join window cannot end before it starts")
    return JoinWindows(before_ms, after_ms, milliseconds(grace, "the grace"))


def _signed(duration: Duration, what: str) -> int:
    """Each side of a join window may be negative: with `before=-5` the window starts five seconds after the record."""
    zero = type(duration)()
    return -milliseconds(-duration, what) if duration < zero else milliseconds(duration, what)  # type: ignore[operator]


def _shown(time_ms: int) -> str:
    return f"{time_ms // 1000}s" if time_ms % 1000 == 0 else f"{time_ms}ms"


def _grace(grace_ms: int) -> str:
    return f" grace {_shown(grace_ms)}" if grace_ms else ""
