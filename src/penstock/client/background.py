"""A thread with an event loop of its own, on which the sync clients run the async ones.

    background = Background("penstock-producer")
    background.call(producer.start, timeout_s=60)       # from any other thread: waits for the result
    background.close()

The thread starts with the first call, so a client that is never used has none. Ctrl-C in a caller cancels what
it waits for, and only that. A thread does not survive a fork and a loop cannot wait for itself: both uses are refused
with words, where they would otherwise hang for ever.

Invariant: after `close`, and when the object is collected or the interpreter ends, the thread and its tasks are gone.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as WaitedTooLong
from typing import Any, Generic, TypeVar

from penstock.client.errors import ClientClosed, IllegalState, TimedOut, UsedAfterFork
from penstock.runtime.loop import new_loop

T = TypeVar("T")

# How long a caller that was interrupted, or whose time is up, waits for its coroutine to tidy up behind itself.
CANCEL_S = 5.0

# How long Ctrl-C may go unheard that comes at the very moment when a caller begins to wait.
SLICE_S = 0.5

# How long `close`, and the end of the interpreter, wait for the thread. Only code that blocks it takes longer, such as
# a callback of the application; the thread is a daemon, so nothing hangs because of it.
JOIN_S = 30.0


class Background:
    def __init__(self, name: str = "penstock-client") -> None:
        self._name = name
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._finalizer: weakref.finalize[[asyncio.AbstractEventLoop, threading.Thread], Background] | None
        self._finalizer = None
        self._is_closed = False

    def call(self, work: Callable[[], Coroutine[Any, Any, T]], *, timeout_s: float | None = None) -> T:
        """Run it on the thread and wait for what it returns or raises; TimedOut, and it is cancelled, after a time.

        `work` makes the coroutine, on the thread. One that was made by the caller would be left over, and warn of it,
        if Ctrl-C came before it was handed over.
        """
        outcome: Future[T] = Future()
        call = _Call(work, outcome)
        self._check_thread()
        try:
            loop = self._post(call.start)
        except BaseException as error:
            is_ctrl_c = not isinstance(error, Exception)
            if is_ctrl_c and self._loop is not None:  # it may run already, and ends where it runs
                self._cancel(self._loop, call)
            raise
        try:
            return _wait(outcome, timeout_s)
        except CancelledError:
            if self._is_closed:
                raise ClientClosed from None
            raise
        except WaitedTooLong:
            if outcome.done():
                raise  # the coroutine's own
            self._cancel(loop, call)
            if outcome.done() and not outcome.cancelled() and outcome.exception() is None:
                return outcome.result()  # it came to its end at the last moment
            assert timeout_s is not None
            raise TimedOut(f"not done within {timeout_s * 1000:.0f} ms") from None
        except BaseException:
            if not outcome.done():
                self._cancel(loop, call)
            raise

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have it called on the thread soon, and do not wait. May be called from the thread itself."""
        self._post(callback, *arguments)

    @property
    def is_running(self) -> bool:
        """Whether the thread was started: something was asked of it."""
        return self._loop is not None

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is what runs here."""
        return threading.current_thread() is self._thread

    @property
    def is_left_behind(self) -> bool:
        """Whether this is a forked child: the thread, and everything on it, stayed with the parent."""
        return os.getpid() != self._process

    def close(self) -> None:
        """Cancel what still runs and end the thread. May be called again."""
        if self.is_own_thread:
            raise IllegalState("a client cannot be closed from its own thread, which would wait for itself")
        if self.is_left_behind:
            self._is_closed = True
            if self._finalizer is not None:
                self._finalizer.detach()  # the thread stayed with the parent
            return
        with self._lock:
            self._is_closed = True
        if self._finalizer is not None:
            self._finalizer()

    def _check_thread(self) -> None:
        if self.is_own_thread:
            raise IllegalState(
                "a sync client was called from its own thread, which would wait for itself;"
                " a callback may not wait for the client that calls it"
            )

    def _post(self, callback: Callable[..., object], *arguments: Any) -> asyncio.AbstractEventLoop:
        if self.is_left_behind:
            raise UsedAfterFork  # before the lock: another thread may have held it when the process was forked
        # Under the lock, so that nothing is handed to a loop behind the word that stops it.
        with self._lock:
            if self._is_closed:
                raise ClientClosed
            loop = self._loop or self._start()
            loop.call_soon_threadsafe(callback, *arguments)
            return loop

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = new_loop()
        thread = threading.Thread(target=_run, args=(loop,), name=self._name, daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        # Neither function holds the object itself, so that one which nobody holds can be collected and its thread ends.
        self._finalizer = weakref.finalize(self, _stop, loop, thread)
        return loop

    @staticmethod
    def _cancel(loop: asyncio.AbstractEventLoop, call: _Call[Any]) -> None:
        loop.call_soon_threadsafe(call.cancel)
        try:
            call.outcome.exception(CANCEL_S)
        except BaseException:  # how it ended does not matter any more; a second Ctrl-C ends the wait
            return


class _Call(Generic[T]):
    """One coroutine on its way through the loop."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], outcome: Future[T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.outcome = outcome

    def start(self) -> None:
        try:
            coroutine = self._work()
        except BaseException as error:
            self.outcome.set_exception(error)
            return
        self._task = asyncio.get_running_loop().create_task(coroutine)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # it was never handed over: otherwise it would have started already
            self.outcome.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """What the thread does: run until it is stopped, then leave nothing behind."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        while leftovers := asyncio.all_tasks(loop):
            for task in leftovers:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if not thread.is_alive():  # as in a child of the process that started it
        return
    try:
        loop.call_soon_threadsafe(loop.stop)
    except RuntimeError:  # it has stopped already
        return
    if thread is not threading.current_thread():
        thread.join(JOIN_S)


def _wait(outcome: Future[T], timeout_s: float | None) -> T:
    """What it comes to. A signal that comes just before a thread begins to wait does not wake it, so the wait has
    slices."""
    deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return outcome.result(max(min(left_s, SLICE_S), 0.0))
        except WaitedTooLong:
            if outcome.done():
                return outcome.result()  # which may be the coroutine's own
            if left_s <= SLICE_S:
                raise
