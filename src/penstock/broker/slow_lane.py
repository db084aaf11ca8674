"""A queue for expensive work of requests: one piece at a time, in a worker.

A request of a few kilobytes can need a tenth of a second of decompression. On the event loop that would block all
clients; in all workers at once it would use their memory, and the threads that sync logs. In this lane it delays only
similar work. Hosts take turns, so a host with a thousand connections gets no more of it than a host with one. The work
of one host runs in order. The caller holds the connection (`net.connection.Connection.hold`), so each connection has
little queued work.
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
        self._queues: dict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        """The queued work by host. The host whose turn is next comes first, and no queue is empty."""
        self._is_busy = False

    def __len__(self) -> int:
        """The number of queued pieces, without the running one."""
        return sum(map(len, self._queues.values()))

    def run(self, work: Callable[[], T], *, host: str) -> asyncio.Future[T]:
        """Queue `work`, which must not use state of the event loop. Cancelling the future before its turn removes
        it."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(host, deque()).append((work, future))
        if not self._is_busy:
            self._start_next()
        return future

    def _start_next(self) -> None:
        while self._queues:
            host, queue = next(iter(self._queues.items()))
            work, future = queue.popleft()
            del self._queues[host]
            if queue:
                self._queues[host] = queue  # at the end of the turns
            if not future.done():
                self._is_busy = True
                self._workers.run(work).add_done_callback(partial(self._finish, future))
                return
        self._is_busy = False

    def _finish(self, future: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            return  # the event loop is closing
        error = done.exception()
        if not future.done():
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(error)
        self._start_next()
