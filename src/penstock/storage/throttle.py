"""A limit on bytes per second, so that copying a log leaves disk bandwidth to producers and consumers.

Bandwidth that was not used in the last second is lost. The rate is read every time, because an operator may change it
while a copy runs; so no single wait is longer than `WAIT_S_MAX`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WAIT_S_MAX = 1.0
WAIT_S_MIN = 0.001  # a shorter wait could round to zero and spin


class Throttle:
    def __init__(self, rate: Callable[[], int], now_s: Callable[[], float]) -> None:
        """`rate` is in bytes per second; 0 stops everything until it is raised."""
        self._rate = rate
        self._now_s = now_s
        self._allowance = 0.0
        """Bytes that may be copied now; negative after more were copied than allowed."""
        self._counted_s = now_s()

    async def take(self, size: int) -> None:
        """Return when `size` more bytes may be copied."""
        while (wait_s := self.wait_s()) > 0:
            await asyncio.sleep(wait_s)
        self._allowance -= size

    def wait_s(self) -> float:
        """Seconds to wait before asking again; 0 if something may be copied now."""
        rate, now_s = self._rate(), self._now_s()
        elapsed_s, self._counted_s = now_s - self._counted_s, now_s
        self._allowance = min(self._allowance + elapsed_s * rate, float(rate))
        if self._allowance >= 0 and rate > 0:
            return 0.0
        return min(WAIT_S_MAX, max(WAIT_S_MIN, -self._allowance / rate)) if rate > 0 else WAIT_S_MAX
