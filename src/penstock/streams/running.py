"""The queries of a running application: all stages at once, or one after another until all input is processed.

A query that lost a Spark process, for example to the OOM killer, is restarted from its checkpoint. The number of
restarts is limited, because the query itself may be the cause.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.client.errors import IllegalState, PenstockError
from penstock.runtime.signals import signals_to_handle
from penstock.spark.pipelines.stopping import BATCH_SECONDS, stop_after_batches

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.streams.compile.queries import Compiled

LOSSES_MAX, LOSSES_SECONDS = 3, 600.0  # more lost processes than this within this time fail the application
ROUNDS_MAX = 10_000  # for `until="end"`: an application that feeds itself must not run forever unnoticed

logger = logging.getLogger("penstock.streams")

Begin = Callable[["Compiled"], "StreamingQuery"]


class AppFailed(PenstockError):
    """A query of the application failed; the other queries were stopped."""


class Running:
    """The queries of a running application. Iterating gives the current ones."""

    def __init__(self, name: str, begin: Begin, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.queries: list[StreamingQuery] = []
        self._stages: list[Compiled] = []
        """The stage that each query runs."""
        self._begin = begin
        self._clock = clock
        self._losses: list[float] = []
        self._is_stopped = False

    def begin(self, *stages: Compiled) -> None:
        """Start a query for each stage. If one cannot start, the others are stopped."""
        try:
            for stage in stages:
                self.queries.append(self._begin(stage))
                self._stages.append(stage)
        except BaseException:
            self.stop()  # the caller has no reference to the queries that did start
            raise

    def __iter__(self) -> Iterator[StreamingQuery]:
        return iter(self.queries)

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def check(self) -> None:
        """Raise `AppFailed` and stop the other queries if a query has failed and cannot be restarted."""
        for query, error in self.begin_again():
            self.stop()
            raise _failure(self.name, query, error) from error

    def begin_again(self) -> list[tuple[StreamingQuery, Exception]]:
        """Restart queries that lost a process. Returns those that failed for other reasons or too often."""
        failed: list[tuple[StreamingQuery, Exception]] = []
        for index, query in enumerate(self.queries):
            error = query.exception()
            if error is None:
                continue
            if not self._may_begin_again(str(error)):
                failed.append((query, error))
                continue
            logger.warning("%s: restarting query %s, which lost a Spark process", self.name, query.name)
            self._lose(query)
            self.queries[index] = self._begin(self._stages[index])
        return failed

    def _lose(self, query: StreamingQuery) -> None:
        """Called before a query is replaced."""

    def _may_begin_again(self, error: str) -> bool:
        from penstock.spark.pipelines.causes import is_lost_process

        if self._is_stopped or not is_lost_process(error):
            return False
        now = self._clock()
        self._losses = [each for each in self._losses if now - each < LOSSES_SECONDS] + [now]
        return len(self._losses) <= LOSSES_MAX

    def go_on(self) -> bool:
        """Start what is due. True while there is something to wait for. Raises `AppFailed` if a query failed."""
        self.check()
        return self.is_active

    def wait(self, seconds: float) -> None:
        """Wait until the current query ends, at most for this time."""
        deadline = time.monotonic() + seconds
        for query in self.queries:
            if query.isActive and (left := deadline - time.monotonic()) > 0:
                try:
                    query.awaitTermination(left)  # type: ignore[arg-type]  # fractions are as good
                except Exception:  # `check` reports it with a better message
                    return

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        """Stop each query after its current batch, waiting at most this long."""
        self._is_stopped = True
        stop_after_batches(self.queries, batch_seconds=batch_seconds)


class Draining(Running):
    """Runs one stage after another, each until its existing input is processed, and again those whose input another
    stage has written. `queries` holds the current one."""

    def __init__(
        self,
        name: str,
        stages: Sequence[Compiled],
        begin: Begin,
        feeds: Callable[[Compiled, Compiled], bool],
    ) -> None:
        super().__init__(name, begin)
        self._all = stages
        self._feeds = feeds
        self._waiting = list(stages)
        self._has_read = False
        """Queries of the current stage that were lost."""
        self._rounds = 0

    def go_on(self) -> bool:
        self.check()
        if self.is_active:
            return True
        if self._is_stopped:
            return False
        self._take_end()
        if not self._waiting:
            return False
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise IllegalState(f"{self.name} reads its own output and never finishes")
        self.begin(self._waiting.pop(0))
        return True

    def _lose(self, query: StreamingQuery) -> None:
        self._has_read = self._has_read or _has_read(query)

    def _take_end(self) -> None:
        """The output of the current query is the input of others."""
        for ended, query in zip(self._stages, self.queries, strict=True):
            query.stop()
            if self._has_read or _has_read(query):
                behind = (other for other in self._all if self._feeds(ended, other))
                self._waiting += [other for other in behind if other not in self._waiting]
        self._stages, self.queries, self._has_read = [], [], False


class heeding_signals:
    """Turns Ctrl-C and SIGTERM into an event while entered. Outside the main thread signals cannot be handled, so the
    event is never set."""

    def __enter__(self) -> threading.Event:
        self.event = threading.Event()
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in signals_to_handle(signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, lambda *_: self.event.set())
        return self.event

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def _failure(name: str, query: StreamingQuery, error: BaseException) -> AppFailed:
    from penstock.spark.pipelines.causes import cause_of

    return AppFailed(f"{name}: the query {query.name} failed: {cause_of(str(error))}")


def _has_read(query: StreamingQuery) -> bool:
    return any(progress["numInputRows"] for progress in query.recentProgress)
