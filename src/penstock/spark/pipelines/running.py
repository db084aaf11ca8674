"""Runs a program's queries: starts them, watches them, and stops them after their current batch.

    with Run(program, spark, checkpoint=...) as run:
        while run.poll():
            ...                      # show `run.figures`
        run.stop()

A stop does not cancel a batch: it waits until the current batch is done (`stopping`).
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.errors.base import ClientError, PenstockError
from penstock.spark import internals
from penstock.spark.pipelines.causes import cause_of
from penstock.spark.pipelines.figures import QueryFigures
from penstock.spark.pipelines.loading import BadProgram, Program, kind_of, place_of
from penstock.spark.pipelines.outages import QUIET_SECONDS, Cluster, OutageProbe, clusters_of
from penstock.spark.pipelines.stopping import BATCH_SECONDS, stop_after_batches
from penstock.spark.settings import Place
from penstock.spark.settings import place_of as place_of_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = "return `df.writeStream.format(...)...`, a query, or a list or dict of them"
SERVERS_VARIABLE = "PENSTOCK_BOOTSTRAP_SERVERS"
WORKERS_SECONDS = 8  # a cluster may take this long to start executors
CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"

logger = logging.getLogger("penstock.spark")


class QueryFailed(ClientError):
    """A query ended with an exception."""


class Watched(NamedTuple):
    """A query and its figures."""

    query: Any
    figures: QueryFigures


class Run:
    """The queries of one program."""

    def __init__(
        self,
        program: Program,
        spark: SparkSession,
        *,
        name: str,
        checkpoint: str,
        is_once: bool = False,
        outages: OutageProbe | None = None,
        find_clusters: Callable[[SparkSession, Any], list[Cluster]] | None = None,
        lacks_workers: Callable[[SparkSession], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._program = program
        self.spark = spark
        self._name = name
        self._checkpoint = checkpoint
        self._is_once = is_once
        self._app: Any | None = None  # the running App
        self._outages = outages or OutageProbe()
        self._find_clusters = find_clusters or clusters_of_query
        self._lacks_workers = lacks_workers or has_no_workers
        self._clock = clock
        self._known_clusters: dict[str, list[Cluster]] = {}
        self._quiet_since: dict[str, float] = {}
        self.watched: list[Watched] = []

    @property
    def figures(self) -> list[QueryFigures]:
        return [watched.figures for watched in self.watched]

    def start(self) -> None:
        """Start what the program defines. Its queries continue from their checkpoints."""
        # Queries that the program starts itself keep their checkpoints here, by name.
        self.spark.conf.set(CHECKPOINT_SETTING, self._checkpoint)
        try:
            queries = list(self._queries(self._called()))
        except PenstockError:
            raise
        except Exception as error:  # of the program, or of Spark about it
            raise BadProgram(
                f"{self._name} could not be started: {_message(error)}{place_of(error)}"
            ) from error
        if not queries:
            raise BadProgram(f"{self._name}: pipeline(spark) returned no query and started none; {WANTED}")
        self._watch(queries)

    def _called(self) -> Any:
        """The queries that the program returns."""
        if self._program.app is not None:
            self._app = self._program.app.start(self.spark, until="end" if self._is_once else None)
            return self._app
        assert self._program.pipeline is not None
        return self._program.pipeline(self.spark)

    def _watch(self, queries: list[Any]) -> None:
        """Add new queries; a stage of an App that runs again continues with its figures."""
        known = {watched.figures.name: watched.figures for watched in self.watched}
        for number, query in enumerate(queries, start=1):
            name = query.name or f"{self._name}-{number}"
            figures = known.get(name) or QueryFigures(name, self._program.app is not None)
            self.watched = [each for each in self.watched if each.figures is not figures]
            self.watched.append(Watched(query, figures))

    def poll(self) -> bool:
        """Take the queries' reports; returns whether any query is still active. Raises `QueryFailed` if one has
        failed."""
        self._begin_again()
        is_any_active = False
        for query, figures in self.watched:
            is_active = bool(query.isActive)
            news = [
                figures.take(json.loads(progress.json))
                for progress in _news(query, since=figures.batch, is_active=is_active)
            ]
            if not is_active:
                self._conclude(query, figures)
            else:
                self._look_for_reasons(query, figures, has_news=any(news))
            is_any_active = is_any_active or is_active
        if not is_any_active and self._is_once and self._app is not None:
            before = list(self._app)
            if self._app.go_on():  # starts its next stage
                self._watch([query for query in self._app if query not in before])
                return True
        return is_any_active

    def _begin_again(self) -> None:
        """Restart the queries that an App has lost to a dead process. A program restarts its own queries itself."""
        if self._app is not None:
            before = list(self._app)
            self._app.begin_again()
            self._watch([query for query in self._app if query not in before])

    def _look_for_reasons(self, query: Any, figures: QueryFigures, *, has_news: bool) -> None:
        """Distinguish a query that works for long from one that waits for a broker or for workers."""
        now = self._clock()
        is_quiet = now - self._quiet_since.setdefault(figures.name, now) >= QUIET_SECONDS
        if has_news or (is_quiet and not query.status["isTriggerActive"]):
            self._quiet_since[figures.name] = now
            is_quiet = False
        figures.at_work_seconds = int(now - self._quiet_since[figures.name]) if is_quiet else 0
        outage = self._outages.outage(self._clusters(query, figures)) if is_quiet else None
        if outage is not None:
            cluster, seconds = outage
            figures.set_outage(cluster.servers, seconds=seconds, patience_seconds=cluster.patience_seconds)
        elif is_quiet or has_news:
            figures.end_outage()
            is_wondering = figures.at_work_seconds >= WORKERS_SECONDS
            figures.lacks_workers = is_wondering and self._lacks_workers(self.spark)

    def _clusters(self, query: Any, figures: QueryFigures) -> list[Cluster]:
        if not self._known_clusters.get(figures.name):
            self._known_clusters[figures.name] = self._find_clusters(self.spark, query)
        return self._known_clusters[figures.name]

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        """Stop all queries, each after its current batch; a batch that no worker has started does not count."""
        if all(figures.lacks_workers for figures in self.figures):
            batch_seconds = 0.0
        stop_after_batches(
            [watched.query for watched in self.watched],
            batch_seconds=batch_seconds,
            before_cancel=self._silence_log,
        )
        for query, figures in self.watched:
            for progress in query.recentProgress:
                figures.take(json.loads(progress.json))
            if figures.state not in ("done", "failed"):
                figures.state = "stopped"
        if self._program.app is not None:
            self._program.app.stop()

    def _silence_log(self) -> None:
        """A cancelled batch would log pages of exceptions that are no errors."""
        if not internals.is_connect(self.spark):
            self.spark.sparkContext.setLogLevel("OFF")

    def _conclude(self, query: Any, figures: QueryFigures) -> None:
        exception = query.exception()
        if exception is None:
            figures.state = "done"
            return
        figures.state = "failed"
        cause = cause_of(str(exception))
        raise QueryFailed(f"{self._name}: the query {figures.name} failed: {cause}") from None

    def _queries(self, started: Any) -> Iterator[Any]:
        """The running queries, in whatever form the program returned them."""
        if started is None:
            yield from self.spark.streams.active
        elif isinstance(started, dict):
            for name, part in started.items():
                yield self._started(part, str(name))
        elif isinstance(started, Iterable) and not isinstance(started, str):
            parts = list(started)
            for number, part in enumerate(parts, start=1):
                yield self._started(part, self._name if len(parts) == 1 else f"{self._name}-{number}")
        else:
            yield self._started(started, self._name)

    def _started(self, part: Any, name: str) -> Any:
        if hasattr(part, "isActive") and hasattr(part, "stop"):
            return part
        if not (hasattr(part, "start") and hasattr(part, "trigger")):
            raise BadProgram(
                f"{self._name}: pipeline(spark) returned {kind_of(part)} instead of a query; {WANTED}"
            )
        if self._is_once:
            part = part.trigger(availableNow=True)
        checkpoint = f"{self._checkpoint.rstrip('/')}/{name}"
        return part.queryName(name).option("checkpointLocation", checkpoint).start()


def clusters_of_query(spark: SparkSession, query: Any) -> list[Cluster]:
    """The clusters that its sources read, from its JVM; through Spark Connect only the cluster in the environment."""
    if not internals.has_jvm_query(query):
        servers = os.environ.get(SERVERS_VARIABLE)
        return [Cluster(servers)] if servers else []
    try:
        return clusters_of(internals.source_options(spark, str(query.id)))
    except Exception as error:
        logger.debug("cannot find out which clusters the query %s reads: %s", query.name, error)
        return []


def has_no_workers(spark: SparkSession) -> bool:
    """Whether the program has no executors in its cluster. False if they cannot be counted."""
    if internals.is_connect(spark) or place_of_master(str(spark.sparkContext.master)) is not Place.CLUSTER:
        return False
    try:
        return internals.executor_count(spark) <= 0
    except Exception as error:
        logger.debug("cannot count the executors of the cluster: %s", error)
        return False


def default_checkpoint(directory: Path, name: str) -> str:
    return str(directory / name / "checkpoints")


def _message(error: Exception) -> str:
    """The cause in Spark's exceptions, which are pages long; other exceptions as they are."""
    if type(error).__module__.startswith("pyspark."):
        return cause_of(str(error)).message
    return f"{type(error).__name__}: {error}"


def _news(query: Any, *, since: int, is_active: bool) -> list[Any]:
    """Reports that may be new. All recent reports are fetched only if the last one shows that some were missed."""
    last = query.lastProgress
    if last is None:
        return []
    is_next = int(last.batchId) <= since + 1
    return [last] if is_active and is_next else list(query.recentProgress)
