"""Work that takes long and that anybody may ask for: one piece at a time, in a worker, in the order in which it came.

A few kilobytes can ask for a tenth of a second of decompression. On the event loop that would stop everyone; in
all workers at once it would take their memory, and the threads that sync logs. In this lane it only keeps
others of its kind waiting. Whoever puts work in holds the connection that it is for
(`net.connection.Connection.hold`), so there is at most one piece for each connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from penstock.runtime.workers import Workers

T = TypeVar("T")


class SlowLane:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._is_busy = False

    def __len__(self) -> int:
        """How much waits, beside what is being worked on."""
        return len(self._queue)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """The result of `work`, which must not touch what the event loop touches. Cancelling it before its turn
        takes it out of the line."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append((work, future))
        if not self._is_busy:
            self._start_next()
        return future

    def _start_next(self) -> None:
        while self._queue:
            work, future = self._queue.popleft()
            if not future.done():
                self._is_busy = True
                self._workers.run(work).add_done_callback(partial(self._finish, future))
                return
        self._is_busy = False

    def _finish(self, future: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            return  # the event loop is being torn down
        error = done.exception()
        if not future.done():
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(error)
        self._start_next()
