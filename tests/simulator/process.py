"""One run of a simulated process. Everything that belongs to it ends with it.

A context variable marks what belongs to a process. Tasks, timers and callbacks inherit the context of their creator,
so the mark is on everything that a node starts. When the process dies, the loop cancels what is scheduled for it and
accepts nothing more. So no `finally` of a dead node affects the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import traceback
import warnings
from collections.abc import Iterable
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any
from weakref import WeakSet

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process of the running code; None outside of any process."""

CLIENT_HOST = "127.0.0.1"  # the host of all code outside of any process
FRAMES_SHOWN = 8  # of an error
CLOSING_TRIES_MAX = 100  # a coroutine may await several times while it closes, but not forever


class Died(BaseException):
    """Unwinds the code that runs when the process dies. Not an Exception, so that no handler catches it."""


class Process:
    def __init__(self, name: str, *, host: str = CLIENT_HOST, label: str = "") -> None:
        self.name = name
        self.host = host
        """The machine on which it runs."""
        self.label = label
        """Precedes its log lines in the trace."""
        self.is_alive = True
        self.is_paused = False
        self.held: list[asyncio.Handle] = []
        """Callbacks that became due while it was paused, in order."""
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._dead_tasks: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the process is dead."""

    def die(self) -> None:
        """Nothing of the process runs from here on. Call `VirtualLoop.drop_process` as well."""
        self.is_alive = False
        self._dead_tasks = list(self.tasks)  # kept, because collecting them now would run their clean-up
        if not self.death.done():
            self.death.set_result(None)

    def close_tasks(self) -> None:
        """Close the dead tasks when the simulation is over and their clean-up does no harm."""
        remains, self._dead_tasks = self._dead_tasks, []
        with warnings.catch_warnings():
            # A task that had not started when the process died still holds a coroutine.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            for task in remains:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    self.context.run(_close, task.get_coro())


def current_host() -> str:
    """The host of the running code."""
    process = PROCESS.get()
    return CLIENT_HOST if process is None else process.host


def describe_frames(frames: Iterable[traceback.FrameSummary]) -> str:
    """Where a node's code was: the innermost calls, without those of the simulator."""
    own = [frame for frame in frames if "/penstock/" in frame.filename][-FRAMES_SHOWN:]
    return " < ".join(f"{Path(each.filename).stem}.{each.name}:{each.lineno}" for each in reversed(own))


def _close(coroutine: Any) -> None:
    if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        # It has not begun, so it does not close the coroutines that it was to await.
        for argument in list(inspect.getcoroutinelocals(coroutine).values()):
            if inspect.iscoroutine(argument):
                _close(argument)
    for _ in range(CLOSING_TRIES_MAX):
        with contextlib.suppress(Exception, Died):
            coroutine.close()
            return
