"""Callers that wait until a full buffer has free bytes again. First come, first served; on the loop.

Invariant: the first waiter is never one that could continue.
"""

from __future__ import annotations

import asyncio

from penstock.client import errors
from penstock.records.producing import Intake

FREE_SHARE = 8  # a waiter continues when an eighth of the buffer is free, not after every record


class BufferWaiters:
    def __init__(self, intake: Intake, buffer_bytes: int) -> None:
        self._intake = intake
        self._buffer_bytes = buffer_bytes
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, size_bytes: int) -> asyncio.Future[None] | None:
        """A future that is done when so many bytes are free; None if they are free now."""
        wanted = max(size_bytes, self._buffer_bytes // FREE_SHARE)
        if self._intake.available_bytes >= wanted:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, waiter))
        return waiter

    def remove(self, waiter: asyncio.Future[None]) -> None:
        """The caller waits no longer. Those behind it may need fewer bytes, so they may be able to continue."""
        self._waiting = [each for each in self._waiting if each[1] is not waiter]
        self.advance()

    def advance(self) -> None:
        """Bytes have become free, or the first waiter has left."""
        while self._waiting and self._intake.available_bytes >= self._waiting[0][0]:
            _, waiter = self._waiting.pop(0)
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(errors.ClientClosed())
