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


@dataclass(slots=True)
class Source:
    """One source of a query that has a group."""

    lookup: Lookup
    progress: GroupProgress

    def commit(self, told: StreamOffset) -> None:
        if told.offsets and all(map(self.lookup.reads, told.offsets)):
            self.progress.commit(told.offsets)


class ProgressListener(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._sources: dict[str, list[Source]] = {}
        """By the run of a query."""
        self._is_over = False
        atexit.register(self._end)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        try:
            found = sources_of(options_of(self._spark, str(event.id)))
        except Exception as error:
            logger.warning("a query's consumer group is not known to the driver: %s", error)
            return
        if found:
            with self._lock:
                self._sources[str(event.runId)] = found

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        with self._lock:
            sources = self._sources.get(str(progress.runId), [])
        try:
            for offset in (_offset(told.endOffset) for told in progress.sources if sources):
                for source in sources:
                    if offset is not None:
                        source.commit(offset)
        except Exception as error:
            if not self._is_over:
                logger.warning("offsets of a query were not committed to its group: %s", error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            had = self._sources.pop(str(event.runId), None)
            is_last = not self._sources
        if had and is_last:
            clients.POOL.clear()

    def _end(self) -> None:
        """Events may still come while the program ends, when clients are gone."""
        self._is_over = True
        with self._lock:
            self._sources.clear()
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
