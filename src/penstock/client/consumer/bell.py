"""What wakes those who wait for a consumer: its application's calls wait here, and whatever concerns them rings.

All of it happens on one event loop. A ring that nobody waits for is not kept: who is about to wait looks first whether
there is something already, and does not await in between.
"""

from __future__ import annotations

import asyncio


class Bell:
    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_s: float | None) -> None:
        """Until it rings, or the time is up."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            self._waiters.discard(waiter)
            waiter.cancel()

    def ring(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
