"""The queries of an application that runs: all stages at once, or one after another until nothing is left to do."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.client.errors import IllegalState, PenstockError
from penstock.spark.pipelines.stopping import BATCH_SECONDS, stop_after_batches

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.streams.compile.queries import Compiled

ROUNDS_MAX = 10_000  # of `until="end"`: what feeds itself for ever should not do so in silence

Begin = Callable[["Compiled"], "StreamingQuery"]


class AppFailed(PenstockError):
    """One of the queries of an application has ended with an error; the rest was stopped."""


class Running:
    """The queries of an application that runs; iterating gives those at hand."""

    def __init__(self, name: str, queries: Sequence[StreamingQuery]) -> None:
        self.name = name
        self.queries = list(queries)

    def __iter__(self) -> Iterator[StreamingQuery]:
        return iter(self.queries)

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def check(self) -> None:
        """Raise `AppFailed` if a query has failed; then the others are stopped too."""
        for query in self.queries:
            error = query.exception()
            if error is not None:
                self.stop()
                raise _failure(self.name, query, error) from error

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
        super().__init__(name, [])
        self._stages = stages
        self._begin = begin
        self._feeds = feeds
        self._waiting = list(stages)
        self._at_hand: Compiled | None = None
        self._rounds = 0

    def go_on(self) -> bool:
        if self.is_active:
            return True
        self.check()
        self._take_end()
        if not self._waiting:
            return False
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise IllegalState(f"{self.name} feeds itself and comes to no end")
        self._at_hand = self._waiting.pop(0)
        self.queries = [self._begin(self._at_hand)]
        return True

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        self._waiting = []
        super().stop(batch_seconds=batch_seconds)
        self._at_hand = None

    def _take_end(self) -> None:
        """What the query at hand has written is input for others."""
        ended, self._at_hand = self._at_hand, None
        if ended is None:
            return
        (query,) = self.queries
        has_read = any(progress["numInputRows"] for progress in query.recentProgress)
        query.stop()
        if has_read:
            behind = (other for other in self._stages if self._feeds(ended, other))
            self._waiting += [other for other in behind if other not in self._waiting]


class heeding_signals:
    """Ctrl-C and SIGTERM as an event, as long as it is entered; elsewhere than in the main thread nothing is heard."""

    def __enter__(self) -> threading.Event:
        self.event = threading.Event()
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, lambda *_: self.event.set())
        return self.event

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def _failure(name: str, query: StreamingQuery, error: BaseException) -> AppFailed:
    from penstock.spark.pipelines.causes import cause_of

    return AppFailed(f"{name}: the query {query.name} failed: {cause_of(str(error))}")
