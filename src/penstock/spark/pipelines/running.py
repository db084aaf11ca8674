"""Runs a program's queries: starts them, watches them, and ends them after the batch at hand.

    with Run(program, spark, checkpoint=...) as run:
        while run.look():
            ...                      # `run.figures` is what to show
        run.stop()

A query is not torn from a batch: a stop waits until the batch is done that was under way. Spark starts the next one at
once, which is then cancelled and done again after the restart, as if it had never begun.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.errors.base import ClientError, PenstockError
from penstock.spark.pipelines.causes import cause_of
from penstock.spark.pipelines.figures import QueryFigures
from penstock.spark.pipelines.loading import BadProgram, Program, place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_SECONDS = 60.0  # how long a batch at hand may go on before a stop cancels it
POLL_SECONDS = 0.05
CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"


class QueryFailed(ClientError):
    """A query ended with an exception."""


class Watched(NamedTuple):
    """A query, and what it has done."""

    query: Any
    figures: QueryFigures


class Run:
    """The queries of one program."""

    def __init__(
        self, program: Program, spark: SparkSession, *, name: str, checkpoint: str, is_once: bool = False
    ) -> None:
        self._program = program
        self.spark = spark
        self._name = name
        self._checkpoint = checkpoint
        self._is_once = is_once
        self.watched: list[Watched] = []

    @property
    def figures(self) -> list[QueryFigures]:
        return [watched.figures for watched in self.watched]

    def start(self) -> None:
        """Start what the program defines. Its queries continue from their checkpoints."""
        # Queries that the program starts itself keep their checkpoints here, by their names.
        self.spark.conf.set(CHECKPOINT_SETTING, self._checkpoint)
        if self._program.app is not None and self._is_once:
            self._program.app.run(self.spark, until="end")
            return
        try:
            queries = list(self._queries(self._called()))
        except PenstockError:
            raise
        except Exception as error:  # the program's own, or what Spark holds against it
            raise BadProgram(
                f"{self._name} could not be started: {_words(error)}{place_of(error)}"
            ) from error
        if not queries:
            raise BadProgram("the program started no query, and returned none")
        is_packed = self._program.app is not None
        self.watched = [
            Watched(query, QueryFigures(query.name or f"{self._name}-{number}", is_packed))
            for number, query in enumerate(queries, start=1)
        ]

    def _called(self) -> Any:
        """What the program gives to run."""
        if self._program.app is not None:
            return self._program.app.start(self.spark)
        assert self._program.pipeline is not None
        return self._program.pipeline(self.spark)

    def look(self) -> bool:
        """Take up what queries have reported; whether any of them still runs. `QueryFailed` where one has failed."""
        is_any_active = False
        for query, figures in self.watched:
            is_active = bool(query.isActive)
            for progress in _news(query, since=figures.batch, is_active=is_active):
                figures.take(json.loads(progress.json))
            if not is_active:
                self._conclude(query, figures)
            is_any_active = is_any_active or is_active
        return is_any_active

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        """End all queries, each after the batch that it is at."""
        deadline = time.monotonic() + batch_seconds
        batches = {id(watched): _batch(watched.query) for watched in self.watched}
        waiting = list(self.watched)
        while waiting and time.monotonic() < deadline:
            for watched in list(waiting):
                if _is_between_batches(watched.query, since=batches[id(watched)]):
                    self._end(watched)
                    waiting.remove(watched)
            time.sleep(POLL_SECONDS)
        for watched in waiting:
            self._end(watched)
        if self._program.app is not None and hasattr(self._program.app, "stop"):
            self._program.app.stop()

    def _end(self, watched: Watched) -> None:
        query, figures = watched
        self._hush()
        query.stop()
        for progress in query.recentProgress:
            figures.take(json.loads(progress.json))
        figures.state = "stopped"

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
                f"pipeline(spark) returned {part!r}, which is neither a query nor a `df.writeStream`"
            )
        if self._is_once:
            part = part.trigger(availableNow=True)
        checkpoint = f"{self._checkpoint.rstrip('/')}/{name}"
        return part.queryName(name).option("checkpointLocation", checkpoint).start()


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


def _batch(query: Any) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)


def _is_between_batches(query: Any, *, since: int) -> bool:
    """Whether it waits for data, or has finished a batch since it was asked to stop."""
    if not query.isActive:
        return True
    status = query.status
    return not status["isTriggerActive"] or _batch(query) > since
