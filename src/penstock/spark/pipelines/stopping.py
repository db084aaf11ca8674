"""Ends queries after the batch that each is at: none is torn from its batch, and none begins another.

Spark's own `stop` cancels whatever runs. But a query of Spark's looks before every batch, and again before a planned
one is begun, whether it was ended. So that is what it is told here, in its JVM (`_told_to_end`): its thread then
finishes the batch at hand and goes. The names are internal to Spark: a test watches them. Where they are not to be
had, as through Spark Connect, a query is stopped as soon as a batch is seen to be done; then Spark may have begun the
next one, which is cancelled and done again after the restart, as if it had never begun.

A query that waits, for data, for its time or for a cluster that does not answer, has no batch at hand and is stopped at
once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

BATCH_SECONDS = 60.0  # how long a batch at hand may go on before a stop cancels it
POLL_SECONDS = 0.02
ASKING_SECONDS = 1.0  # a source that takes longer to tell what there is, waits for a cluster
ASKING = ("Getting offsets", "Initializing")  # how Spark's messages begin before there is a batch

logger = logging.getLogger("penstock.spark")


def stop_after_batches(
    queries: Iterable[Any],
    *,
    batch_seconds: float = BATCH_SECONDS,
    before_cancel: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """End all of them, each after its batch, which may take so long; `before_cancel` is called if one must be torn from
    it after all."""
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
    """A query that is to end."""

    def __init__(self, query: Any, *, since: float) -> None:
        self.query = query
        self._since = since
        self._batch = last_batch(query)
        self._thread = _told_to_end(query)

    def is_at_work(self) -> bool:
        if self._thread is not None:
            return bool(self._thread.isAlive())
        return bool(self.query.isActive)

    def has_no_batch(self, now: float) -> bool:
        """Whether it may be stopped without loss."""
        if not self.is_at_work():
            return True
        status = self.query.status
        if not status["isTriggerActive"]:
            return True
        if now - self._since >= ASKING_SECONDS and str(status["message"]).startswith(ASKING):
            return True
        return self._thread is None and last_batch(self.query) > self._batch


def last_batch(query: Any) -> int:
    """The last batch that it has told of; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)


def _told_to_end(query: Any) -> Any | None:
    """The thread of a query that ends after its batch; None where it could not be told so."""
    handle = getattr(query, "_jsq", None)
    if handle is None:  # of Spark Connect, whose JVM is elsewhere
        return None
    try:
        execution = handle.streamingQuery()
        state = execution.state()
        thread = execution.queryExecutionThread()
        kind = state.get().getClass()
        ended = kind.getClassLoader().loadClass(f"{kind.getPackageName()}.TERMINATED$")
        state.set(ended.getField("MODULE$").get(None))
    except Exception as error:  # whatever py4j makes of a Spark that has changed
        logger.debug("a query could not be told to end after its batch: %s", error)
        return None
    return thread
