"""An event loop whose time is virtual: it jumps to the next timer when nothing is left to do.

No thread, no socket and no real clock is involved, so a run is decided by its seed alone and an hour of
timeouts passes in milliseconds. The loop also knows which process a callback belongs to, and runs none of a dead
one (see `process`).
"""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

from penstock.testing.process import PROCESS, Process

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000  # the wall clock's value when a simulation starts; any constant will do


class NothingLeftToDo(Exception):
    """Every task waits for something that will never come: in a simulation that is a bug, and it is seen at once."""


class _JumpingSelector:
    """Stands where a real loop polls its descriptors: instead of waiting, it moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeftToDo
        self.now += max(timeout, 0.0)
        return []

    def close(self) -> None:
        pass


class VirtualLoop(base_events.BaseEventLoop):
    _ready: Any
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self._selector = _JumpingSelector()
        self._clock_resolution = 1e-9
        self._buried: list[Process] = []

    def time(self) -> float:
        return self._selector.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        if not _may_run(handle):
            handle.cancel()
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        if not _may_run(handle):
            handle.cancel()
        return handle

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.tasks.add(task)
        return task

    def bury(self, process: Process) -> None:
        """Drop all that is scheduled for a dead process."""
        self._buried.append(process)
        for handle in [*self._ready, *self._scheduled]:
            if handle._context.get(PROCESS) is process:
                handle.cancel()

    def living_tasks(self) -> list[asyncio.Task[Any]]:
        return [
            task for task in asyncio.all_tasks(self) if not any(task in each.tasks for each in self._buried)
        ]

    def dissolve(self) -> None:
        """Let go of the dead; nothing may be run any more."""
        for process in self._buried:
            process.dissolve()
        self._buried.clear()

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "a virtual loop has no descriptors"

    def _write_to_self(self) -> None:
        """Nothing to wake: no other thread ever calls into this loop."""


def _may_run(handle: asyncio.Handle) -> bool:
    process: Process | None = handle._context.get(PROCESS)  # type: ignore[attr-defined]
    return process is None or process.is_alive


class VirtualClock:
    """Wall time that follows the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.skew_ms = 0
        """How far it is off; a machine's clock may come back from a power cut earlier than it went."""

    def wall_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + round(self._loop.time() * 1000)


def run_virtual(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, then cancel and collect whatever it left behind."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        leftovers = loop.living_tasks()
        for task in leftovers:
            task.cancel()
        if leftovers:
            loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.dissolve()
        asyncio.set_event_loop(None)
        loop.close()
