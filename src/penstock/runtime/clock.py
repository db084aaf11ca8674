"""Time as an argument.

Two kinds: `wall_ms` is what people and record timestamps mean, and may jump; durations and timers use the event
loop's own monotonic `time()` and `call_later`, which a simulation replaces with a virtual loop.
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
