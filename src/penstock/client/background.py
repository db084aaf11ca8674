"""A thread with its own event loop, on which the sync clients run the async code.

    background = Background("penstock-producer")
    background.call(producer.start, timeout_s=60)       # from any other thread: waits for the result
    background.close()

The thread starts with the first call. Ctrl-C in a caller cancels only the call that it waits for. A thread does not
survive a fork, and a loop cannot wait for itself: both uses raise an error instead of hanging.

Invariant: after `close`, garbage collection or the end of the interpreter, the thread and its tasks have ended.
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

# How long an interrupted or timed-out caller waits for its coroutine to clean up.
CANCEL_S = 5.0

# How long Ctrl-C may be delayed if it arrives at the moment when a caller begins to wait.
SLICE_S = 0.5

# How long `close` and the end of the interpreter wait for the thread. Only code that blocks it takes longer, such as a
# callback of the application. The thread is a daemon, so it cannot keep the process alive.
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
        """Run a coroutine on the thread and return its result. After `timeout_s` it is cancelled and TimedOut is
        raised.

        `work` makes the coroutine on the thread. A coroutine made by the caller would never be awaited, with a warning,
        if Ctrl-C came before it was handed over.
        """
        outcome: Future[T] = Future()
        call = _Call(work, outcome)
        self._check_thread()
        try:
            loop = self._post(call.start)
        except BaseException as error:
            is_ctrl_c = not isinstance(error, Exception)
            if is_ctrl_c and self._loop is not None:  # it may be running already, and is cancelled there
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
                raise  # the coroutine's own timeout
            self._cancel(loop, call)
            if outcome.done() and not outcome.cancelled() and outcome.exception() is None:
                return outcome.result()  # it finished at the last moment
            assert timeout_s is not None
            raise TimedOut(f"the call did not finish within {timeout_s * 1000:.0f} ms") from None
        except BaseException:
            if not outcome.done():
                self._cancel(loop, call)
            raise

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the thread soon, without waiting. The thread itself may call this."""
        self._post(callback, *arguments)

    @property
    def is_running(self) -> bool:
        """Whether the thread was started."""
        return self._loop is not None

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked after the thread started: the thread stayed in the parent."""
        return os.getpid() != self._process

    def close(self) -> None:
        """Cancel running tasks and end the thread. It may be called again."""
        if self.is_own_thread:
            raise IllegalState(
                "a client cannot be closed from its own thread: the thread would wait for itself"
            )
        if self.is_forked:
            self._is_closed = True
            if self._finalizer is not None:
                self._finalizer.detach()  # the thread stayed in the parent process
            return
        with self._lock:
            self._is_closed = True
        if self._finalizer is not None:
            self._finalizer()

    def _check_thread(self) -> None:
        if self.is_own_thread:
            raise IllegalState(
                "a sync client was called from its own thread, and would wait for itself;"
                " a callback must not make blocking calls to its client"
            )

    def _post(self, callback: Callable[..., object], *arguments: Any) -> asyncio.AbstractEventLoop:
        if self.is_forked:
            raise UsedAfterFork  # before the lock: another thread may have held it at the fork
        # Under the lock, so that nothing is posted to the loop after it stops.
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
        # Neither function refers to the object itself, so that an unused one can be collected and its thread ends.
        self._finalizer = weakref.finalize(self, _stop, loop, thread)
        return loop

    @staticmethod
    def _cancel(loop: asyncio.AbstractEventLoop, call: _Call[Any]) -> None:
        loop.call_soon_threadsafe(call.cancel)
        try:
            call.outcome.exception(CANCEL_S)
        except BaseException:  # the outcome no longer matters; a second Ctrl-C ends the wait
            return


class _Call(Generic[T]):
    """One coroutine that a caller waits for."""

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
        else:  # it was never handed over, otherwise it would have started
            self.outcome.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """The thread's function: run until stopped, then clean up."""
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
    if not thread.is_alive():  # for example in a forked child
        return
    try:
        loop.call_soon_threadsafe(loop.stop)
    except RuntimeError:  # it has stopped already
        return
    if thread is not threading.current_thread():
        thread.join(JOIN_S)


def _wait(outcome: Future[T], timeout_s: float | None) -> T:
    """Wait for the result, in slices: a signal that arrives just before a thread begins to wait does not wake it."""
    deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return outcome.result(max(min(left_s, SLICE_S), 0.0))
        except WaitedTooLong:
            if outcome.done():
                return outcome.result()  # it may be the coroutine's own timeout
            if left_s <= SLICE_S:
                raise
