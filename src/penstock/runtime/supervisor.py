"""Background tasks of a node: none of them ends unnoticed.

A supervised task that raises is logged with its traceback, counted, and started again after a backoff. The backoff
doubles with each failure in a row, so a task that always fails neither spins nor floods the log. The owner
of a task keeps the handle and cancels it; the supervisor only keeps it running until then.

Work with an end, for which somebody waits, does not belong here: its owner looks at the result.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)

BACKOFF_FIRST_MS = 1_000
BACKOFF_MAX_MS = 60_000  # one line in the log each minute for a task that always fails
STEADY_MS = 10 * BACKOFF_MAX_MS  # after running for so long, a failure counts as the first one again


def backoff_ms(failures: int, *, first_ms: int = BACKOFF_FIRST_MS, max_ms: int = BACKOFF_MAX_MS) -> int:
    """How long to wait after so many failures in a row."""
    # The exponent is bounded first: after days of failures the power would have thousands of digits.
    return min(first_ms << min(failures - 1, 30), max_ms)


class Supervisor:
    """All background tasks of one node."""

    def __init__(self) -> None:
        self.restarts: Counter[str] = Counter()
        """How often each task has failed and was started again, by its name."""

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run `work`, which goes on until it is cancelled, and start it again if it raises."""
        return asyncio.get_running_loop().create_task(self._run(name, work), name=name)

    def repeat(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        interval_ms: int,
        initial_delay_ms: int | None = None,
    ) -> asyncio.Task[None]:
        """Do `work` every `interval_ms`, and after a failure as soon as the backoff allows."""
        first_ms = interval_ms if initial_delay_ms is None else initial_delay_ms
        rounds = self._repeat(name, work, interval_ms=interval_ms, initial_delay_ms=first_ms)
        return asyncio.get_running_loop().create_task(rounds, name=name)

    def failed(self, name: str, error: BaseException, *, failures: int) -> int:
        """Log and count a failure; returns how long to wait before the next try, in ms."""
        self.restarts[name] += 1
        delay_ms = backoff_ms(failures)
        logger.error(
            "background task %r failed: %s; restarting it in %d ms (restarts so far: %d)",
            name,
            error or type(error).__name__,
            delay_ms,
            self.restarts[name],
            exc_info=error,
        )
        return delay_ms

    async def _run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                await work()
                return
            except Exception as error:
                ran_ms = (loop.time() - began) * 1000
                failures = 1 if ran_ms >= STEADY_MS else failures + 1
                delay_ms = self.failed(name, error, failures=failures)
            await asyncio.sleep(delay_ms / 1000)

    async def _repeat(
        self, name: str, work: Callable[[], Awaitable[None]], *, interval_ms: int, initial_delay_ms: int
    ) -> None:
        delay_ms = initial_delay_ms
        failures = 0
        while True:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await work()
            except Exception as error:
                failures += 1
                delay_ms = self.failed(name, error, failures=failures)
            else:
                failures = 0
                delay_ms = interval_ms
