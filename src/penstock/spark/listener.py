"""Hears on the driver of every micro-batch after it was written, and commits its end to the query's consumer group.

The source does the same when Spark asks it for the next batch (`stream`), which may be an hour later, or never where
the query is stopped before. What a query reads from, and which group it has, is found in the plan that the driver's JVM
holds: so this is for sessions that have one, and a session of Spark Connect is left to the source.

A listener must not raise: whatever goes wrong here is a warning.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock.spark")


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
    on its source is ahead of every event, and an old offset must not take the place of a newer one."""

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._ends: list[StreamOffset] = []
        self._timer: threading.Timer | None = None

    def note(self, ends: list[StreamOffset]) -> None:
        self.rest()
        with self._lock:
            self._ends = ends
            self._timer = threading.Timer(QUIET_S, self.commit)
            self._timer.daemon = True
            self._timer.start()

    def rest(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def commit(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, []
            try:
                for end in ends:
                    for source in self._sources:
                        source.commit(end)
            except Exception as error:
                logger.warning("offsets of a query were not committed to its group: %s", error)


class ProgressListener(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Run] = {}
        atexit.register(self._end)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
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
        run = self._runs.pop(str(event.runId), None)
        if run is not None:
            run.rest()
            run.commit()
            if not self._runs:
                clients.POOL.clear()

    def _end(self) -> None:
        """Events may still come while the program ends, when clients are gone."""
        runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.rest()
        clients.POOL.clear()


def options_of(spark: SparkSession, query_id: str) -> list[dict[str, str]]:
    """The options of each source `penstock` of a query that runs. The names inside of Spark are its own affair, and may
    change; a test watches them."""
    jvm_session: Any = spark._jsparkSession
    query = jvm_session.streams().get(query_id)
    if query is None:
        return []
    leaves = query.streamingQuery().analyzedPlan().collectLeaves()
    found = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == "penstock":
            found.append(dict(leaf.extraOptions().asCaseSensitiveMap()))
    return found


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
