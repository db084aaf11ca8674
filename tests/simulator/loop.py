"""An event loop with virtual time: it jumps to the next timer when nothing else is ready.

It uses no threads, no sockets and no real clock. So only the seed decides a run, and an hour of timeouts passes in
milliseconds. The loop knows which process a callback belongs to. It runs none of a dead process (see `process`), and
holds back those of a paused one.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

from simulator.process import PROCESS, Process

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000  # wall clock at the start of a simulation; any constant will do


class NothingLeftToDo(Exception):
    """Every task waits for something that cannot happen: a deadlock."""


class _JumpingSelector:
    """In place of polling descriptors it moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeftToDo
        self.now += max(timeout, 0.0)
        return []

    def close(self) -> None:
        pass


class _ReadyQueue(deque[asyncio.Handle]):
    """Callbacks that are due. Those of a paused process wait in the process."""

    paused_count = 0

    def append(self, handle: asyncio.Handle) -> None:
        if self.paused_count:
            process = _process_of(handle)
            if process is not None and process.is_paused:
                process.held.append(handle)
                return
        super().append(handle)


class VirtualLoop(base_events.BaseEventLoop):
    _ready: _ReadyQueue
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self._ready = _ReadyQueue()
        self._selector = _JumpingSelector()
        self._clock_resolution = 1e-9
        self._dead_processes: list[Process] = []

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

    def drop_process(self, process: Process) -> None:
        """Cancel everything that is scheduled for a dead process."""
        self._dead_processes.append(process)
        self._ready.paused_count -= process.is_paused
        process.is_paused = False
        process.held.clear()
        for handle in [*self._ready, *self._scheduled]:
            if handle._context.get(PROCESS) is process:
                handle.cancel()

    def pause_process(self, process: Process) -> None:
        """Run nothing of the process until `resume_process`. The running callback continues to its end."""
        assert process.is_alive, "the process is dead"
        assert not process.is_paused, "the process is paused already"
        process.is_paused = True
        self._ready.paused_count += 1
        for index, handle in enumerate(self._ready):
            if _process_of(handle) is process:
                process.held.append(handle)
                # The loop may be in the middle of the queue, and has counted its length.
                self._ready[index] = placeholder = asyncio.Handle(_do_nothing, (), self)
                placeholder.cancel()

    def resume_process(self, process: Process) -> None:
        """Everything that became due meanwhile runs now, in the order in which it became due."""
        assert process.is_paused, "the process is not paused"
        process.is_paused = False
        self._ready.paused_count -= 1
        held, process.held = process.held, []
        self._ready.extend(held)

    def live_tasks(self) -> list[asyncio.Task[Any]]:
        return [
            task
            for task in asyncio.all_tasks(self)
            if not any(task in each.tasks for each in self._dead_processes)
        ]

    def close_tasks(self) -> None:
        """Release the tasks of dead processes. Nothing may run afterwards."""
        for process in self._dead_processes:
            process.close_tasks()
        self._dead_processes.clear()

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "a virtual loop has no descriptors"

    def _write_to_self(self) -> None:
        """No other thread calls into this loop."""


def _do_nothing() -> None:
    pass


def _may_run(handle: asyncio.Handle) -> bool:
    process = _process_of(handle)
    return process is None or process.is_alive


def _process_of(handle: asyncio.Handle) -> Process | None:
    process: Process | None = handle._context.get(PROCESS)  # type: ignore[attr-defined]
    return process


class VirtualClock:
    """Wall clock time, derived from the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.skew_ms = 0
        """Offset of the clock. After a power cut a machine's clock may be behind."""

    def wall_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + round(self._loop.time() * 1000)


def run_virtual(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, then cancel the remaining tasks."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        leftovers = loop.live_tasks()
        for task in leftovers:
            task.cancel()
        if leftovers:
            loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close_tasks()
        asyncio.set_event_loop(None)
        loop.close()
