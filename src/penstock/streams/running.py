"""The queries of an application that runs: all stages at once, or one after another until nothing is left to do.

A query that has lost a process of Spark's, killed for its memory perhaps, is begun again from its checkpoint; but not
without end, since what kills it may be in it.
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

LOSSES_MAX, LOSSES_SECONDS = 3, 600.0  # of processes, in so long, after which an application has failed
ROUNDS_MAX = 10_000  # of `until="end"`: what feeds itself for ever should not do so in silence

logger = logging.getLogger("penstock.streams")

Begin = Callable[["Compiled"], "StreamingQuery"]


class AppFailed(PenstockError):
    """One of the queries of an application has ended with an error; the rest was stopped."""


class Running:
    """The queries of an application that runs; iterating gives those at hand."""

    def __init__(self, name: str, begin: Begin, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.queries: list[StreamingQuery] = []
        self._stages: list[Compiled] = []
        """What each query runs."""
        self._begin = begin
        self._clock = clock
        self._losses: list[float] = []
        self._is_stopped = False

    def begin(self, *stages: Compiled) -> None:
        """Begin a query for each; if one of them cannot begin, none stays."""
        try:
            for stage in stages:
                self.queries.append(self._begin(stage))
                self._stages.append(stage)
        except BaseException:
            self.stop()  # nobody would know of those that have begun
            raise

    def __iter__(self) -> Iterator[StreamingQuery]:
        return iter(self.queries)

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def check(self) -> None:
        """Raise `AppFailed` if a query has failed that cannot be begun again; then the others are stopped too."""
        for query, error in self.begin_again():
            self.stop()
            raise _failure(self.name, query, error) from error

    def begin_again(self) -> list[tuple[StreamingQuery, Exception]]:
        """Begin those again that have lost a process; what has failed for other reasons, or too often."""
        failed: list[tuple[StreamingQuery, Exception]] = []
        for index, query in enumerate(self.queries):
            error = query.exception()
            if error is None:
                continue
            if not self._may_begin_again(str(error)):
                failed.append((query, error))
                continue
            logger.warning(
                "%s: the query %s has lost a process of Spark's and goes on", self.name, query.name
            )
            self._lose(query)
            self.queries[index] = self._begin(self._stages[index])
        return failed

    def _lose(self, query: StreamingQuery) -> None:
        """It is about to be replaced."""

    def _may_begin_again(self, error: str) -> bool:
        from penstock.spark.pipelines.causes import is_of_lost_process

        if self._is_stopped or not is_of_lost_process(error):
            return False
        now = self._clock()
        self._losses = [each for each in self._losses if now - each < LOSSES_SECONDS] + [now]
        return len(self._losses) <= LOSSES_MAX

    def go_on(self) -> bool:
        """Begin what is due; whether anything is left to wait for. `AppFailed` where a query has failed."""
        self.check()
        return self.is_active

    def wait(self, seconds: float) -> None:
        """Until the query at hand has ended, or so long."""
        deadline = time.monotonic() + seconds
        for query in self.queries:
            if query.isActive and (left := deadline - time.monotonic()) > 0:
                try:
                    query.awaitTermination(left)  # type: ignore[arg-type]  # fractions are as good
                except Exception:  # told by `check`, in better words
                    return

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        """End the queries after the batch that each is at, which may take so long."""
        self._is_stopped = True
        stop_after_batches(self.queries, batch_seconds=batch_seconds)


class Draining(Running):
    """One stage after another, each until all is done that is there for it, and again those that read what another one
    has written; `queries` is the one at hand."""

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
        """The stage at hand, in queries that were lost."""
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
            raise IllegalState(f"{self.name} feeds itself and comes to no end")
        self.begin(self._waiting.pop(0))
        return True

    def _lose(self, query: StreamingQuery) -> None:
        self._has_read = self._has_read or _has_read(query)

    def _take_end(self) -> None:
        """What the query at hand has written is input for others."""
        for ended, query in zip(self._stages, self.queries, strict=True):
            query.stop()
            if self._has_read or _has_read(query):
                behind = (other for other in self._all if self._feeds(ended, other))
                self._waiting += [other for other in behind if other not in self._waiting]
        self._stages, self.queries, self._has_read = [], [], False


class heeding_signals:
    """Ctrl-C and SIGTERM as an event, as long as it is entered; elsewhere than in the main thread nothing is heard."""

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
