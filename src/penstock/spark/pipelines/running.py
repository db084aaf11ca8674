"""Runs a program's queries: starts them, watches them, and ends them after the batch at hand.

    with Run(program, spark, checkpoint=...) as run:
        while run.look():
            ...                      # `run.figures` is what to show
        run.stop()

A query is not torn from a batch: a stop waits until the batch is done that was under way (`stopping`).
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
from penstock.spark.pipelines.causes import cause_of
from penstock.spark.pipelines.figures import QueryFigures
from penstock.spark.pipelines.loading import BadProgram, Program, kind_of, place_of
from penstock.spark.pipelines.reach import QUIET_SECONDS, Cluster, Reach, clusters_of
from penstock.spark.pipelines.stopping import BATCH_SECONDS, stop_after_batches
from penstock.spark.settings import Place
from penstock.spark.settings import place_of as place_of_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = "return `df.writeStream.format(...)...`, a query, or a list or a dict of them"
SERVERS_VARIABLE = "PENSTOCK_BOOTSTRAP_SERVERS"
WORKERS_SECONDS = 8  # which a cluster may take to start executors
CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"

logger = logging.getLogger("penstock.spark")


class QueryFailed(ClientError):
    """A query ended with an exception."""


class Watched(NamedTuple):
    """A query, and what it has done."""

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
        reach: Reach | None = None,
        find_clusters: Callable[[SparkSession, Any], list[Cluster]] | None = None,
        lacks_workers: Callable[[SparkSession], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._program = program
        self.spark = spark
        self._name = name
        self._checkpoint = checkpoint
        self._is_once = is_once
        self._app: Any | None = None  # what a started App has given
        self._reach = reach or Reach()
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
        # Queries that the program starts itself keep their checkpoints here, by their names.
        self.spark.conf.set(CHECKPOINT_SETTING, self._checkpoint)
        try:
            queries = list(self._queries(self._called()))
        except PenstockError:
            raise
        except Exception as error:  # the program's own, or what Spark holds against it
            raise BadProgram(
                f"{self._name} could not be started: {_words(error)}{place_of(error)}"
            ) from error
        if not queries:
            raise BadProgram(f"{self._name}: pipeline(spark) returned no query and started none; {WANTED}")
        self._watch(queries)

    def _called(self) -> Any:
        """What the program gives to run."""
        if self._program.app is not None:
            self._app = self._program.app.start(self.spark, until="end" if self._is_once else None)
            return self._app
        assert self._program.pipeline is not None
        return self._program.pipeline(self.spark)

    def _watch(self, queries: list[Any]) -> None:
        """Those that are new; a stage of an App that runs again goes on with the figures that it had."""
        known = {watched.figures.name: watched.figures for watched in self.watched}
        for number, query in enumerate(queries, start=1):
            name = query.name or f"{self._name}-{number}"
            figures = known.get(name) or QueryFigures(name, self._program.app is not None)
            self.watched = [each for each in self.watched if each.figures is not figures]
            self.watched.append(Watched(query, figures))

    def look(self) -> bool:
        """Take up what queries have reported; whether any of them still runs. `QueryFailed` where one has failed."""
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
            if self._app.go_on():  # with its next stage
                self._watch([query for query in self._app if query not in before])
                return True
        return is_any_active

    def _begin_again(self) -> None:
        """What an App has lost to the death of a process; queries that the program began are for it to begin again."""
        if self._app is not None:
            before = list(self._app)
            self._app.begin_again()
            self._watch([query for query in self._app if query not in before])

    def _look_for_reasons(self, query: Any, figures: QueryFigures, *, has_news: bool) -> None:
        """Tell a query that works for long from one that waits for a broker or for workers."""
        now = self._clock()
        is_quiet = now - self._quiet_since.setdefault(figures.name, now) >= QUIET_SECONDS
        if has_news or (is_quiet and not query.status["isTriggerActive"]):
            self._quiet_since[figures.name] = now
            is_quiet = False
        figures.at_work_seconds = int(now - self._quiet_since[figures.name]) if is_quiet else 0
        outage = self._reach.outage(self._clusters(query, figures)) if is_quiet else None
        if outage is not None:
            cluster, seconds = outage
            figures.take_outage(cluster.servers, seconds=seconds, patience_seconds=cluster.patience_seconds)
        elif is_quiet or has_news:
            figures.take_answer()
            is_wondering = figures.at_work_seconds >= WORKERS_SECONDS
            figures.lacks_workers = is_wondering and self._lacks_workers(self.spark)

    def _clusters(self, query: Any, figures: QueryFigures) -> list[Cluster]:
        if not self._known_clusters.get(figures.name):
            self._known_clusters[figures.name] = self._find_clusters(self.spark, query)
        return self._known_clusters[figures.name]

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        """End all queries, each after the batch that it is at; a batch that no worker has taken on is none."""
        if all(figures.lacks_workers for figures in self.figures):
            batch_seconds = 0.0
        stop_after_batches(
            [watched.query for watched in self.watched], batch_seconds=batch_seconds, before_cancel=self._hush
        )
        for query, figures in self.watched:
            for progress in query.recentProgress:
                figures.take(json.loads(progress.json))
            if figures.state not in ("done", "failed"):
                figures.state = "stopped"
        if self._program.app is not None:
            self._program.app.stop()

    def _hush(self) -> None:
        """A batch that is cancelled fills pages with exceptions that are none."""
        from pyspark.sql.utils import is_remote

        if not is_remote():
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
        """Running queries, whatever form the program gave them in."""
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
                f"{self._name}: pipeline(spark) returned {kind_of(part)}, which is no query; {WANTED}"
            )
        if self._is_once:
            part = part.trigger(availableNow=True)
        checkpoint = f"{self._checkpoint.rstrip('/')}/{name}"
        return part.queryName(name).option("checkpointLocation", checkpoint).start()


def clusters_of_query(spark: SparkSession, query: Any) -> list[Cluster]:
    """Where its sources read, as its JVM has it; through Spark Connect there is only what the program was told."""
    if getattr(query, "_jsq", None) is None:
        told = os.environ.get(SERVERS_VARIABLE)
        return [Cluster(told)] if told else []
    from penstock.spark.listener import options_of

    try:
        return clusters_of(options_of(spark, str(query.id)))
    except Exception as error:  # whatever py4j makes of a Spark that has changed
        logger.debug("it is not known where the query %s reads: %s", query.name, error)
        return []


def has_no_workers(spark: SparkSession) -> bool:
    """Whether a program is alone in its cluster. Where workers are not ours to count, nothing is said against them."""
    from pyspark.sql.utils import is_remote

    if is_remote() or place_of_master(str(spark.sparkContext.master)) is not Place.CLUSTER:
        return False
    try:
        known = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return len(known) <= 1  # the driver counts as one
    except Exception as error:  # whatever py4j makes of a Spark that has changed
        logger.debug("the workers of the cluster are not known: %s", error)
        return False


def default_checkpoint(directory: Path, name: str) -> str:
    return str(directory / name / "checkpoints")


def _words(error: Exception) -> str:
    """Spark's exceptions have pages in them, and what matters somewhere in these."""
    if type(error).__module__.startswith("pyspark."):
        return cause_of(str(error)).words
    return f"{type(error).__name__}: {error}"


def _news(query: Any, *, since: int, is_active: bool) -> list[Any]:
    """Reports that may be new. All that Spark keeps are asked for only where the last tells that some were missed."""
    last = query.lastProgress
    if last is None:
        return []
    is_next = int(last.batchId) <= since + 1
    return [last] if is_active and is_next else list(query.recentProgress)
