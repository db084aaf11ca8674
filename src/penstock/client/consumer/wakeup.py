"""Wakes the application's calls that wait for a consumer.

Everything happens on one event loop. A wakeup without a waiter is not remembered: a caller checks its condition first,
without an await in between.
"""

from __future__ import annotations

import asyncio


class Wakeup:
    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until `wake`, or until the timeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            self._waiters.discard(waiter)
            waiter.cancel()

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
