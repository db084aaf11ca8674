"""The background tasks of a node: none of them ends unnoticed.

When a supervised task raises, the supervisor logs the traceback, counts the failure and restarts the task after a
backoff. The backoff doubles with each failure in a row, so a task that always fails neither spins nor floods the log.
The owner of a task keeps the handle and cancels it.

Work whose result a caller awaits does not belong here: the caller handles the failure.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)

BACKOFF_FIRST_MS = 1_000
BACKOFF_MAX_MS = 60_000  # a task that always fails logs one line a minute
STEADY_MS = 10 * BACKOFF_MAX_MS  # a failure after running this long counts as the first one again

_BACKOFF = Backoff(BACKOFF_FIRST_MS, BACKOFF_MAX_MS, jitter=0)


class Supervisor:
    """Starts the background tasks of one node and restarts those that fail."""

    def __init__(self) -> None:
        self.restarts: Counter[str] = Counter()
        """How often each task failed and was restarted, by task name."""

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run `work` until it is cancelled; restart it if it raises."""
        return asyncio.get_running_loop().create_task(self._run(name, work), name=name)

    def repeat(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        interval_ms: int,
        initial_delay_ms: int | None = None,
    ) -> asyncio.Task[None]:
        """Run `work` every `interval_ms`; after a failure, run it again when the backoff is over."""
        first_ms = interval_ms if initial_delay_ms is None else initial_delay_ms
        rounds = self._repeat(name, work, interval_ms=interval_ms, initial_delay_ms=first_ms)
        return asyncio.get_running_loop().create_task(rounds, name=name)

    def record_failure(self, name: str, error: BaseException, *, failures: int) -> int:
        """Log and count a failure; return the wait before the restart, in ms."""
        self.restarts[name] += 1
        delay_ms = int(_BACKOFF.wait_ms(failures))
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
                delay_ms = self.record_failure(name, error, failures=failures)
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
                delay_ms = self.record_failure(name, error, failures=failures)
            else:
                failures = 0
                delay_ms = interval_ms
