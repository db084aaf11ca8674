"""Worker threads, simulated: each piece of work runs at once on the virtual loop, after a random delay.

If the node crashes within the delay, the work never happened, as when power fails before an fsync returns.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from penstock.runtime.workers import Lane

T = TypeVar("T")

DELAY_S_MAX = 0.02
STALL_CHANCE = 0.03  # a busy disk delays one call while others go through
STALL_FACTOR = 20


class SimulatedWorkers:
    def __init__(self, rng: random.Random, *, delay_s_max: float = DELAY_S_MAX) -> None:
        self._random = rng
        self.delay_s_max = delay_s_max
        """May change at any time: a disk becomes slow."""
        self._is_dead = False
        self.is_working = False
        """Whether the running code would be in a worker thread."""

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        delay_s = self._random.uniform(0, self.delay_s_max)
        if self._random.random() < STALL_CHANCE:
            delay_s *= STALL_FACTOR
        loop.call_later(delay_s, self._finish, work, future)
        return future

    def close(self) -> None:
        """Nothing to wait for."""

    def kill(self) -> None:
        """Power cut: pending work never runs."""
        self._is_dead = True

    def _finish(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        if self._is_dead or future.cancelled():
            return
        self.is_working = True
        try:
            result = work()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            self.is_working = False
