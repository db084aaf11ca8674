"""Stops streaming queries after their current batch: no batch is cancelled, and no further one starts.

Spark's own `stop` cancels the running batch. Before every batch, and again before it runs a planned one, a query checks
whether it was terminated. `internals.finish_batch_and_end` terminates it in the JVM: the query finishes its batch and
ends. Without access to the JVM, as through Spark Connect, a query is stopped as soon as it reports a finished batch.
Spark may have started the next one by then, which is cancelled and replayed after the restart.

A query that waits for data, for its trigger or for an unavailable cluster has no batch and is stopped at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from penstock.spark.internals import finish_batch_and_end

BATCH_SECONDS = 60.0  # how long the current batch may go on before a stop cancels it
POLL_SECONDS = 0.02
ASKING_SECONDS = 1.0  # a source that takes longer to get offsets waits for a cluster
ASKING = ("Getting offsets", "Initializing")  # Spark's status messages before a batch exists


def stop_after_batches(
    queries: Iterable[Any],
    *,
    batch_seconds: float = BATCH_SECONDS,
    before_cancel: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Stop all queries, each after its current batch, within `batch_seconds`; `before_cancel` is called before a
    batch is cancelled after all."""
    waiting = [Stopping(query, since=clock()) for query in queries]
    deadline = clock() + batch_seconds
    while waiting:
        now = clock()
        for each in list(waiting):
            if now >= deadline or each.has_no_batch(now):
                if each.is_at_work():
                    before_cancel()
                each.query.stop()
                waiting.remove(each)
        if waiting:
            sleep(POLL_SECONDS)


class Stopping:
    """A query that is being stopped."""

    def __init__(self, query: Any, *, since: float) -> None:
        self.query = query
        self._since = since
        self._batch = last_batch(query)
        self._thread = finish_batch_and_end(query)

    def is_at_work(self) -> bool:
        if self._thread is not None:
            return bool(self._thread.isAlive())
        return bool(self.query.isActive)

    def has_no_batch(self, now: float) -> bool:
        """Whether it can be stopped without cancelling a batch."""
        if not self.is_at_work():
            return True
        status = self.query.status
        if not status["isTriggerActive"]:
            return True
        if now - self._since >= ASKING_SECONDS and str(status["message"]).startswith(ASKING):
            return True
        return self._thread is None and last_batch(self.query) > self._batch


def last_batch(query: Any) -> int:
    """The last batch that it reported; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)
