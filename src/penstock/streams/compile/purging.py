"""Deletes what was processed of an application's internal topics, which would grow for ever.

A record may go when no batch can ask for it again. After a crash Spark does the last batch again if it was not written
down as done, so nothing is deleted that the last finished batch has read: only what lies before its start. An internal
topic has one stage that reads it, so one query tells all of it.

Whatever goes wrong here is a warning: a topic that is longer than it need be harms nobody, and it is
tried again after the interval.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock import errors
from penstock.client.cluster import TopicPartition
from penstock.spark import clients
from penstock.spark.errors import SparkError
from penstock.spark.offsets import StreamOffset
from penstock.spark.registering import is_connect
from penstock.streams.compile import names
from penstock.streams.compile.cut import Stage
from penstock.streams.settings import AppSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock.streams")

PATIENCE_S = 5.0  # whoever stops Spark waits for what its listeners are at

Delete = Callable[[Mapping[TopicPartition, int]], object]


class Purge:
    """Decides what may go, and when. `topics` are internal ones."""

    def __init__(self, topics: Collection[str], *, interval_ms: int) -> None:
        self._topics = frozenset(topics)
        self._interval_s = interval_ms / 1000
        self._last_s: float | None = None
        self._deleted: dict[TopicPartition, int] = {}

    def due(self, start: Mapping[TopicPartition, int], now_s: float) -> dict[TopicPartition, int]:
        """Before which offsets records can be deleted now that a batch is done which began at `start`. The first time
        nothing is waited for: a program that runs by the clock may never run for long."""
        if self._last_s is not None and now_s - self._last_s < self._interval_s:
            return {}
        found = {
            partition: offset
            for partition, offset in start.items()
            if partition.topic in self._topics and offset > self._deleted.get(partition, 0)
        }
        if found:
            self._last_s = now_s
        return found

    def done(self, before: Mapping[TopicPartition, int]) -> None:
        self._deleted |= before


class PurgeListener(StreamingQueryListener):
    """Hears of every batch after it was written. It listens as long as one of its queries runs or is starting.

    Spark tells of a start before `start()` returns, but of an end at any later time, on another thread. So the end of
    one query may be heard while the next one is starting, and must not make the listener deaf to that one.
    """

    def __init__(self, spark: SparkSession, purges: Mapping[str, Purge], delete: Delete) -> None:
        self._spark = spark
        self._purges = purges
        """By the name of a query."""
        self._delete = delete
        self._lock = threading.RLock()
        self._running: set[str] = set()
        self._starting = 0
        self._is_listening = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While a query is being started."""
        with self._lock:
            self._starting += 1
            if not self._is_listening:
                self._is_listening = True
                self._spark.streams.addListener(self)
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1
                self._leave_if_idle()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        if event.name in self._purges:
            with self._lock:
                self._running.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        purge = self._purges.get(event.progress.name or "")
        if purge is None:
            return
        for source in event.progress.sources:
            before = purge.due(_offsets(source.startOffset), time.monotonic())
            if not before:
                continue
            try:
                self._delete(before)
                purge.done(before)
            except errors.PenstockError as error:
                logger.warning("what was processed of internal topics was not deleted: %s", error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            if str(event.runId) in self._running:
                self._running.discard(str(event.runId))
                self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        # A listener of Spark Connect cannot be taken away by itself: its thread would wait for its own end.
        if not (self._running or self._starting) and self._is_listening and not is_connect(self._spark):
            self._is_listening = False
            self._spark.streams.removeListener(self)


def listener_for(spark: SparkSession, settings: AppSettings, stages: Iterable[Stage]) -> PurgeListener | None:
    """Of an application; None where it has no internal topics."""
    application_id = settings.application_id
    interval_ms = settings.get("repartition.purge.interval.ms")
    found = {
        names.query(application_id, stage.name): [
            names.internal(application_id, topic) for topic in stage.internal_topics
        ]
        for stage in stages
    }
    purges = {query: Purge(topics, interval_ms=interval_ms) for query, topics in found.items() if topics}
    return PurgeListener(spark, purges, delete_by(settings.client)) if purges else None


def delete_by(settings: Mapping[str, object]) -> Delete:
    """By an admin client that the process keeps."""

    def delete(before: Mapping[TopicPartition, int]) -> None:
        with clients.admin(settings) as admin:
            admin.delete_records(before, timeout=PATIENCE_S)

    return delete


def _offsets(told: Any) -> Mapping[TopicPartition, int]:
    """None before the first batch, and of sources of other kinds."""
    try:
        return StreamOffset.of_json(json.loads(told)).offsets
    except (SparkError, ValueError, TypeError):
        return {}
