"""Work that takes long and that anybody may ask for: one piece at a time, in a worker.

A few kilobytes can ask for a tenth of a second of decompression. On the event loop that would stop everyone; in
all workers at once it would take their memory, and the threads that sync logs. In this lane it only keeps
others of its kind waiting, and hosts take turns, so that one with a thousand connections has no more of it than one
with a single one. The work of one host is done in the order in which it came. Whoever puts work in holds the
connection that it is for (`net.connection.Connection.hold`), so there is little for each connection.
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
        self._lines: dict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        """What waits, by host; the host whose turn is next comes first, and none is empty."""
        self._is_busy = False

    def __len__(self) -> int:
        """How much waits, beside what is being worked on."""
        return sum(map(len, self._lines.values()))

    def run(self, work: Callable[[], T], *, host: str) -> asyncio.Future[T]:
        """The result of `work`, which must not touch what the event loop touches. Cancelling it before its turn
        takes it out of the line."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(host, deque()).append((work, future))
        if not self._is_busy:
            self._start_next()
        return future

    def _start_next(self) -> None:
        while self._lines:
            host, line = next(iter(self._lines.items()))
            work, future = line.popleft()
            del self._lines[host]
            if line:
                self._lines[host] = line  # at the end, until its turn comes again
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
