"""Follows streaming queries on the driver: commits the end of every micro-batch to the query's consumer group, and ends
the open transactions of a query that has terminated.

The source commits the same offsets when Spark asks it for the next batch (`stream`). That may be an hour later, or
never if the query is stopped before. The listener reads the sources, group and sink of a query from the driver's JVM,
so it serves only sessions that have one; with Spark Connect, only the source commits.

A listener must not raise: every error here is logged as a warning.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.spark import clients, internals
from penstock.spark.errors import SparkError
from penstock.spark.lookup import Lookup
from penstock.spark.offsets import StreamOffset
from penstock.spark.options import Options, Use
from penstock.spark.progress import GroupProgress
from penstock.spark.sink.cleanup import CLEANUP, SinkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock.spark")


STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
STOP_S = 1.0  # for all queries, at the end of a program
QUIET_S = 1.0  # the source of a busy query commits by itself; only an idle query needs the listener


@dataclass(slots=True)
class Source:
    """A source of a query that has a consumer group."""

    lookup: Lookup
    progress: GroupProgress

    def commit(self, end: StreamOffset) -> None:
        if end.offsets and all(map(self.lookup.reads, end.offsets)):
            self.progress.commit(end.offsets, is_late=True)


class Run:
    """One run of a query. The end of its last batch is committed when the query is idle or terminated: while it is
    busy, its source is ahead of every event, and an older offset must not replace a newer one.

    All queries share the thread that delivers events, so `note` and `rest` wait for no broker. Only one thread commits
    at a time: the next one waits, and then commits newer offsets or none.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._committing = threading.Lock()
        self._ends: list[StreamOffset] = []
        self._timer: threading.Timer | None = None

    def note(self, ends: list[StreamOffset]) -> None:
        timer = threading.Timer(QUIET_S, self.commit)
        timer.daemon = True
        with self._lock:
            self._ends = ends
            self._replace_timer(timer)
        timer.start()

    def rest(self) -> None:
        with self._lock:
            self._replace_timer(None)

    def commit(self) -> None:
        with self._committing:
            with self._lock:
                ends, self._ends = self._ends, []
            try:
                for end in ends:
                    for source in self._sources:
                        source.commit(end)
            except Exception as error:
                logger.warning("could not commit the offsets of a query to its consumer group: %s", error)

    def _replace_timer(self, timer: threading.Timer | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


class ProgressListener(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Run] = {}
        self._queries: dict[str, Any] = {}
        """The JVM's object of each run, which stays usable after the query terminates."""
        self.is_over = partial(internals.is_stopped, spark.sparkContext)
        LISTENERS[:] = [each for each in LISTENERS if not each.is_over()]
        LISTENERS.append(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        try:
            self._queries[str(event.runId)] = internals.stream_execution(self._spark, str(event.id))
            if (sink := sink_of(self._spark, str(event.id), str(event.runId))) is not None:
                CLEANUP.add(sink, is_over=self.is_over)
        except Exception as error:
            logger.warning(
                "open transactions of query %s will not be ended when it stops: %s", event.id, error
            )
        try:
            found = sources_of(internals.source_options(self._spark, str(event.id)))
        except Exception as error:
            logger.warning("the driver cannot commit to the consumer group of query %s: %s", event.id, error)
            return
        if found:
            self._runs[str(event.runId)] = Run(found)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        run = self._runs.get(str(event.progress.runId))
        if run is not None:
            ends = (_offset(source.endOffset) for source in event.progress.sources)
            run.note([offset for offset in ends if offset is not None])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._queries.pop(str(event.runId), None)
        if str(event.runId) in CLEANUP.runs:
            is_whole = event.exception is None and query is not None and internals.is_between_batches(query)
            CLEANUP.retire(str(event.runId), is_whole=is_whole)
        run = self._runs.pop(str(event.runId), None)
        if run is not None:
            run.rest()
            run.commit()
            if not self._runs:
                clients.POOL.clear()

    def rest(self) -> None:
        """Cancel the timers: events may still arrive while the program ends and clients are closed."""
        runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.rest()

    def stop_queries(self, until_s: float) -> None:
        """Stop the exactly-once queries, which the end of the program would interrupt in a batch: their transactions
        can be ended only when they do not continue."""
        if self.is_over():
            return
        try:
            self._spark.streams.removeListener(self)
            self._spark.conf.set(STOP_TIMEOUT, str(round(STOP_S * 1000)))
            for query in self._spark.streams.active:
                if str(query.runId) in CLEANUP.runs and time.monotonic() < until_s:
                    query.stop()
        except Exception as error:
            # The JVM has ended, or a task does not stop in time. The sink's protocol handles both.
            logger.debug("could not stop queries at the end of the program: %s", error)


LISTENERS: list[ProgressListener] = []
"""One per session of this process; each is notified only of its own queries."""


def end() -> None:
    """Run at the end of the program. The transaction cleanup serves all sessions and ends last."""
    for each in LISTENERS:
        each.rest()
    if CLEANUP.runs and _owns_jvm():
        until_s = time.monotonic() + STOP_S
        for each in LISTENERS:
            each.stop_queries(until_s)
        for run in sorted(CLEANUP.runs):
            CLEANUP.retire(run)
    CLEANUP.end()
    clients.POOL.clear()


atexit.register(end)


def _owns_jvm() -> bool:
    """Whether this process started Spark's JVM. Otherwise the JVM and its queries may outlive this process."""
    if CLEANUP.is_left_behind:  # a child of the driver ends; the driver goes on
        return False
    return internals.is_jvm_child()


def sink_of(spark: SparkSession, query_id: str, run: str) -> SinkRun | None:
    """The exactly-once sink of a query, or None. The query itself reports bad options."""
    given = internals.sink_options(spark, query_id)
    if given is None:
        return None
    try:
        options = Options.read(given, Use.STREAM_WRITE)
    except SparkError:
        return None
    is_once = options.is_exactly_once(is_stream=True)
    return SinkRun.of(options, sink=query_id, run=run) if is_once else None


def sources_of(given: list[dict[str, str]]) -> list[Source]:
    """The sources that have a consumer group. The query itself reports bad options."""
    found = []
    for each in given:
        try:
            options = Options.read(each, Use.STREAM_READ)
            if options.is_set("groupId"):
                found.append(Source(Lookup(options), GroupProgress(options)))
        except SparkError:
            continue
    return found


def _offset(text: Any) -> StreamOffset | None:
    """None for sources of other kinds."""
    try:
        return StreamOffset.of_json(json.loads(text))
    except (SparkError, ValueError, TypeError):
        return None
