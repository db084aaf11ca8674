"""The wall clock, as an argument.

`wall_ms` is for record timestamps and for people, and may jump. Durations and timers use the monotonic `time()` and
`call_later` of the event loop, which a simulation replaces by a virtual loop.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
