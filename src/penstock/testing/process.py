"""One life of a simulated process: everything that carries its mark ends with it.

The mark is a context variable. Tasks, timers and callbacks inherit the context of whoever makes them, so all that
a node starts, directly or far down, is known to be its own. When the process dies, the loop drops what is
scheduled under its mark and takes nothing more: no `finally` of a dead node ever runs against what lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakSet

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process that the running code belongs to; None for the world around."""

CLOSING_TRIES_MAX = 100  # a coroutine may wait again and again on its way out, but not for ever


class Died(BaseException):
    """Unwinds the code that runs at the moment of death. Not an Exception: nobody may handle it and go on."""


class Process:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._remains: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the process is dead; whoever waits for something of it waits for this too."""

    def die(self) -> None:
        """From here on nothing of it runs. The loop must be told as well (`VirtualLoop.bury`)."""
        self.is_alive = False
        self._remains = list(self.tasks)  # kept: collecting them now would run their clean-up
        if not self.death.done():
            self.death.set_result(None)

    def dissolve(self) -> None:
        """Let go of the dead tasks, when the simulation is over and nothing can be harmed any more."""
        remains, self._remains = self._remains, []
        with warnings.catch_warnings():
            # A task that had not begun when the process died holds what it was about to await.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            for task in remains:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    self.context.run(_close, task.get_coro())


def _close(coroutine: Any) -> None:
    for _ in range(CLOSING_TRIES_MAX):
        with contextlib.suppress(Exception, Died):
            coroutine.close()
            return
