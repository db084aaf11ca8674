"""Hears on the driver what becomes of queries: commits the end of every micro-batch to the query's consumer group, and
has ended what a query has left open when it is over.

The source commits the same when Spark asks it for the next batch (`stream`), which may be an hour later, or never where
the query is stopped before. What a query reads from, which group it has and where it writes to is found in what the
driver's JVM holds of it: so this is for sessions that have one, and a session of Spark Connect is left to the source.

A listener must not raise: whatever goes wrong here is a warning.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.spark import clients
from penstock.spark.errors import SparkError
from penstock.spark.lookup import Lookup
from penstock.spark.offsets import StreamOffset
from penstock.spark.options import Options, Use
from penstock.spark.progress import GroupProgress
from penstock.spark.sink.retiring import CARETAKER, SinkRun, stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock.spark")


STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
STOP_S = 1.0  # at the end of a program
QUIET_S = 1.0  # a query that goes on at once commits by itself; only one that rests needs somebody else


@dataclass(slots=True)
class Source:
    """One source of a query that has a group."""

    lookup: Lookup
    progress: GroupProgress

    def commit(self, told: StreamOffset) -> None:
        if told.offsets and all(map(self.lookup.reads, told.offsets)):
            self.progress.commit(told.offsets, is_late=True)


class Run:
    """One run of a query. What its last batch ended with is committed when the query rests, or is over: while it goes
    on its source is ahead of every event, and an old offset must not take the place of a newer one.

    All queries share the thread that tells of their batches, so `note` and `rest` wait for no broker. Who commits has
    the turn: another one waits for it, as the end of a query does, and comes with what is newer, or with nothing."""

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._turn = threading.Lock()
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
        with self._turn:
            with self._lock:
                ends, self._ends = self._ends, []
            try:
                for end in ends:
                    for source in self._sources:
                        source.commit(end)
            except Exception as error:
                logger.warning("offsets of a query were not committed to its group: %s", error)

    def _replace_timer(self, timer: threading.Timer | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


class ProgressListener(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Run] = {}
        self._queries: dict[str, Any] = {}
        """What the JVM holds of each, also when it is over."""
        self.is_over = stopped(spark.sparkContext)
        LISTENERS[:] = [each for each in LISTENERS if not each.is_over()]
        LISTENERS.append(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        try:
            self._queries[str(event.runId)] = _running(self._spark, str(event.id))
            if (sink := sink_of(self._spark, str(event.id), str(event.runId))) is not None:
                CARETAKER.note(sink, is_over=self.is_over)
        except Exception as error:
            logger.warning(
                "what query %s leaves open when it ends, the driver will not know: %s", event.id, error
            )
        try:
            found = sources_of(options_of(self._spark, str(event.id)))
        except Exception as error:
            logger.warning("a query's consumer group is not known to the driver: %s", error)
            return
        if found:
            self._runs[str(event.runId)] = Run(found)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        run = self._runs.get(str(event.progress.runId))
        if run is not None:
            told = (_offset(source.endOffset) for source in event.progress.sources)
            run.note([offset for offset in told if offset is not None])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._queries.pop(str(event.runId), None)
        if str(event.runId) in CARETAKER.runs:
            is_whole = event.exception is None and query is not None and is_between_batches(query)
            CARETAKER.retire(str(event.runId), is_whole=is_whole)
        run = self._runs.pop(str(event.runId), None)
        if run is not None:
            run.rest()
            run.commit()
            if not self._runs:
                clients.POOL.clear()

    def rest(self) -> None:
        """Events may still come while the program ends, when clients are gone."""
        runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.rest()

    def stop_queries(self, until_s: float) -> None:
        """Those that write exactly once and would be torn from their batch in a moment: what they have open can only be
        ended when they do not go on."""
        if self.is_over():
            return
        try:
            self._spark.streams.removeListener(self)
            self._spark.conf.set(STOP_TIMEOUT, str(round(STOP_S * 1000)))
            for query in self._spark.streams.active:
                if str(query.runId) in CARETAKER.runs and time.monotonic() < until_s:
                    query.stop()
        except Exception as error:
            # The JVM is gone, or a task takes its time: both are a matter for the protocol.
            logger.debug("queries were not stopped at the end of the program: %s", error)


LISTENERS: list[ProgressListener] = []
"""Of the sessions of this process: each hears of its own queries alone."""


def end() -> None:
    """The program is over, and with it all sessions. The caretaker is theirs in common, and goes last."""
    for each in LISTENERS:
        each.rest()
    if CARETAKER.runs and _ends_with_us():
        until_s = time.monotonic() + STOP_S
        for each in LISTENERS:
            each.stop_queries(until_s)
        for run in sorted(CARETAKER.runs):
            CARETAKER.retire(run)
    CARETAKER.end()
    clients.POOL.clear()


atexit.register(end)


def _ends_with_us() -> bool:
    """Whether Spark's JVM was started by this process. Another one may outlive it, and its queries go on."""
    if CARETAKER.is_left_behind:  # as they do when a child of the driver ends
        return False
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None) is not None


# -- what the JVM holds of a query. The names inside of Spark are its own affair, and may change; tests watch them.


def options_of(spark: SparkSession, query_id: str) -> list[dict[str, str]]:
    """The options of each source `penstock` of a query that runs."""
    query = _running(spark, query_id)
    if query is None:
        return []
    leaves = query.analyzedPlan().collectLeaves()
    found = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == "penstock":
            found.append(dict(leaf.extraOptions().asCaseSensitiveMap()))
    return found


def sink_options_of(spark: SparkSession, query_id: str) -> dict[str, str] | None:
    """The options of the sink of a query that runs, if it is `penstock`."""
    query = _running(spark, query_id)
    if query is None or query.sink().getClass().getSimpleName() != "PythonTable":
        return None
    if query.sink().name() != "penstock":
        return None
    # Its plan says them too, but only when the query has looked at its sources, which may take it a while.
    field = query.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    jvm: Any = spark._jvm
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(field.get(query)))


def is_between_batches(query: Any) -> bool:
    """Whether a query has finished every batch that it has begun."""
    try:
        begun, finished = (log.getLatestBatchId() for log in (query.offsetLog(), query.commitLog()))
        return bool(begun.equals(finished))
    except Exception as error:  # a checkpoint for a while is gone with its query
        logger.debug("whether a query was in the middle of a batch is not known: %s", error)
        return False


def _running(spark: SparkSession, query_id: str) -> Any:
    jvm_session: Any = spark._jsparkSession
    query = jvm_session.streams().get(query_id)
    return None if query is None else query.streamingQuery()


def sink_of(spark: SparkSession, query_id: str, run: str) -> SinkRun | None:
    """Where a query writes to, if it does exactly once. What is wrong with options the query itself says."""
    given = sink_options_of(spark, query_id)
    if given is None:
        return None
    try:
        options = Options.read(given, Use.STREAM_WRITE)
    except SparkError:
        return None
    is_once = options.is_exactly_once(is_stream=True)
    return SinkRun.of(options, sink=query_id, run=run) if is_once else None


def sources_of(given: list[dict[str, str]]) -> list[Source]:
    """Those that have a group. What is wrong with options the query itself says."""
    found = []
    for each in given:
        try:
            options = Options.read(each, Use.STREAM_READ)
            if options.is_set("groupId"):
                found.append(Source(Lookup(options), GroupProgress(options)))
        except SparkError:
            continue
    return found


def _offset(told: Any) -> StreamOffset | None:
    """None of sources of other kinds."""
    try:
        return StreamOffset.of_json(json.loads(told))
    except (SparkError, ValueError, TypeError):
        return None
