"""Deletes processed records from an application's internal topics, which would otherwise grow forever.

A record may be deleted when no batch can read it again. After a crash Spark repeats the last batch if it was not
committed, so only records before the start of the last finished batch are deleted. An internal topic is read by one
stage, so the progress of one query is enough.

Failures are logged as warnings: a topic that is too long does no harm, and deletion is tried again after the
interval.
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
from penstock.spark.internals import is_connect
from penstock.spark.offsets import StreamOffset
from penstock.streams.compile import names
from penstock.streams.compile.cut import Stage
from penstock.streams.settings import AppSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock.streams")

PATIENCE_S = 5.0  # stopping Spark waits for its listeners

Delete = Callable[[Mapping[TopicPartition, int]], object]


class Purge:
    """Decides what may be deleted, and when. `topics` are internal topics."""

    def __init__(self, topics: Collection[str], *, interval_ms: int) -> None:
        self._topics = frozenset(topics)
        self._interval_s = interval_ms / 1000
        self._last_s: float | None = None
        self._deleted: dict[TopicPartition, int] = {}

    def due(self, start: Mapping[TopicPartition, int], now_s: float) -> dict[TopicPartition, int]:
        """The offsets before which records can be deleted after a batch that started at `start`. The first deletion
        does not wait for the interval, because a program that is run periodically may never run that long."""
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
    """Gets the progress of every written batch. It listens while one of its queries runs or starts.

    Spark reports a start before `start()` returns, but an end at any later time on another thread. The end of one
    query may therefore be reported while the next one starts, and must not remove the listener.
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
        """While a query starts."""
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
                logger.warning("cannot delete processed records of internal topics, will retry: %s", error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            if str(event.runId) in self._running:
                self._running.discard(str(event.runId))
                self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        # A Spark Connect listener cannot remove itself: its thread would wait for its own end.
        if not (self._running or self._starting) and self._is_listening and not is_connect(self._spark):
            self._is_listening = False
            self._spark.streams.removeListener(self)


def listener_for(spark: SparkSession, settings: AppSettings, stages: Iterable[Stage]) -> PurgeListener | None:
    """The listener of an application; None if it has no internal topics."""
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
    """Uses an admin client that the process keeps."""

    def delete(before: Mapping[TopicPartition, int]) -> None:
        with clients.admin(settings) as admin:
            admin.delete_records(before, timeout=PATIENCE_S)

    return delete


def _offsets(progress: Any) -> Mapping[TopicPartition, int]:
    """None before the first batch, and for other kinds of sources."""
    try:
        return StreamOffset.of_json(json.loads(progress)).offsets
    except (SparkError, ValueError, TypeError):
        return {}
