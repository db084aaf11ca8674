"""Sends the records of an async producer that the program did not close, or reports how many are lost.

An async producer lives on the application's event loop, and nothing can be sent once that loop is closed. So the
producer is closed before that, in three ways:

- `asyncio.run()` ends its tasks, then closes all async generators (`loop.shutdown_asyncgens`), then the loop. Each
producer has an async generator that only waits to be closed: it flushes after the last task of the application.

- A producer that is garbage collected has its `Guard` start a task that closes it.

- A loop that was stopped but never closed is run once more by `atexit`.

If the application closed its loop itself, nothing can be sent: the number of lost records is logged as an error.

Invariant: the registry holds cores and never guards, so that an unused producer is collected.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import warnings
from collections.abc import AsyncGenerator
from contextlib import suppress

from penstock.client import errors
from penstock.client.producer.core import ProducerCore

logger = logging.getLogger(__name__)

EXIT_TIMEOUT_MS = 30_000  # as long as the sync producer takes at exit
GRACE_S = 5.0  # for a loop in another thread: it reports the records itself if it is able to
ADVICE = "use `async with Producer(...)`, or `await producer.close()`"


class Guard:
    """Watches over one producer from its first use until it is closed. Only the producer may hold it."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        core.on_started = lambda: _Unclosed(core).start()

    async def release(self) -> None:
        """The producer was closed."""
        if (unclosed := _UNCLOSED.pop(self._core, None)) is not None:
            await unclosed.generator.aclose()

    def __del__(self) -> None:
        unclosed = _UNCLOSED.get(self._core)
        if unclosed is None or self._core.refusal is not None:
            return
        if unclosed.loop.is_closed():
            unclosed.report_lost()
        else:  # collected in any thread
            with suppress(RuntimeError):  # closed in this moment
                unclosed.loop.call_soon_threadsafe(unclosed.close_soon)
            warnings.warn(f"a producer was not closed; {ADVICE}", ResourceWarning, stacklevel=1)


class _Unclosed:
    """A producer that has been used and not closed yet."""

    def __init__(self, core: ProducerCore) -> None:
        self.core = core
        self.loop = asyncio.get_running_loop()
        self.generator = self._until_closed()
        self._closing: asyncio.Task[None] | None = None
        self._is_ending = False

    def start(self) -> None:
        """Register the generator with the loop, by its first step. It yields at once, without waiting."""
        _UNCLOSED[self.core] = self
        with suppress(StopIteration):
            self.generator.__anext__().send(None)

    async def _until_closed(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._is_ending = True
            if self._closing is not None:
                await asyncio.wait([self._closing])
            await self.close()

    def close_soon(self) -> None:
        """The producer was garbage collected."""
        if not self._is_ending:
            self._closing = self.loop.create_task(self.close(), name="penstock-unclosed-producer")

    async def close(self) -> None:
        """Send the remaining records and close.

        If this is cancelled, the producer stays registered and is closed later: `asyncio.run()` cancels all tasks, also
        those that this one needs, before it closes the generator.
        """
        core = self.core
        if core.refusal is not None:  # it is closed, or belongs to the parent process
            return
        deadline_ms = core.client.deadline(EXIT_TIMEOUT_MS)
        try:
            await core.drain(deadline_ms=deadline_ms)
            await core.close(deadline_ms=deadline_ms)
        except errors.PenstockError as error:
            logger.error("a producer was not closed, and its records were not written: %s; %s", error, ADVICE)
        _UNCLOSED.pop(core, None)
        core.refusal = errors.ClientClosed(
            "the producer was closed when its event loop ended; create one in each asyncio.run()"
        )

    def report_lost(self, reason: str = "the event loop was closed before the producer") -> None:
        _UNCLOSED.pop(self.core, None)
        if count := self.core.accumulator.record_count:
            topics = ", ".join(sorted({line.topic for line in self.core.accumulator.lines}))
            logger.error("lost %d record(s) for %s: %s; %s", count, topics, reason, ADVICE)


_UNCLOSED: dict[ProducerCore, _Unclosed] = {}


@atexit.register
def _close_all() -> None:
    """If the program stopped its loop without closing it, the records are still sent."""
    for unclosed in list(_UNCLOSED.values()):
        loop = unclosed.loop
        if unclosed.core.refusal is not None:
            continue
        if loop.is_closed():
            unclosed.report_lost()
        elif loop.is_running():  # in another thread
            closing = asyncio.run_coroutine_threadsafe(unclosed.close(), loop)
            try:
                closing.result(EXIT_TIMEOUT_MS / 1000 + GRACE_S)
            except TimeoutError:
                unclosed.report_lost("the event loop was busy when the program ended")
        else:
            loop.run_until_complete(unclosed.close())
