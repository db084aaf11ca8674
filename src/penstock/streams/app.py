"""An application: a topology that runs on Spark.

    app = App("word-count", brokers="localhost:9092")
    words = app.stream("lines", value=str).flat_map(str.split)
    words.group_by_value().count(name="counts").to("word-counts")
    app.run()

What is computed is `interpret`'s meaning of the topology; how, is `compile`'s. An App may be started again after it was
stopped, and goes on where it was: its place is in `state.dir`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from penstock.client.errors import IllegalState, PenstockError
from penstock.streams.compile.cut import cut, feeds
from penstock.streams.compile.tasks import Program
from penstock.streams.dsl.builder import Builder
from penstock.streams.dsl.graph import State
from penstock.streams.nouns import TopologyError
from penstock.streams.settings import AppSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.streams.compile.queries import Compiled

LOOK_SECONDS = 0.2  # how often it is seen whether a query has failed or a signal has come
STOP_LOOK_SECONDS = 0.02
BATCH_SECONDS = 60.0  # how long a batch at hand may go on before a stop cancels it
ROUNDS_MAX = 10_000  # of `until="end"`: what feeds itself for ever should not do so in silence


class AppFailed(PenstockError):
    """One of the queries of an application has ended with an error; the rest was stopped."""


class App(Builder):
    """Streams and tables that run. Settings are Kafka's: `commit_interval_ms=500`, or `settings={...}` with dots."""

    def __init__(
        self,
        name: str | None = None,
        brokers: str | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        super().__init__()
        self.settings = AppSettings.of(name, brokers, settings, options)
        self._running: Running | None = None
        self._states: dict[str, State[Any, Any]] = {}
        self._spark: SparkSession | None = None

    @property
    def name(self) -> str:
        return self.settings.application_id

    def start(self, spark: SparkSession | None = None) -> Running:
        """Start all queries and return at once."""
        if self._running is not None and self._running.is_active:
            raise IllegalState(f"{self.name} runs already")
        self._running = Running(self.name, [self._begin(compiled) for compiled in self._compiled(spark)])
        return self._running

    def run(self, spark: SparkSession | None = None, *, until: Literal["end"] | None = None) -> None:
        """Run until a signal comes (Ctrl-C, SIGTERM), which ends after the batch at hand; with `until="end"` until all
        that is there now has been processed, through all stages."""
        if until == "end":
            self._run_to_the_end(spark)
        elif until is None:
            running = self.start(spark)
            with _signals() as stopping:
                while not stopping.wait(LOOK_SECONDS):
                    running.check()
            self.stop()
        else:
            raise TopologyError(f"run until `end`, or until a signal; not until {until!r}")

    def stop(self) -> None:
        """End the queries, each after the batch that it is at. Nothing happens if none runs."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def state(self, name: str) -> State[Any, Any]:
        """The state of one of the tables, as the log has it: also from another process than the one that runs it."""
        from penstock.streams.states import table_state

        if name not in self._states:
            self._states[name] = table_state(self.topology, name, self.settings)
        return self._states[name]

    def _compiled(self, spark: SparkSession | None) -> list[Compiled]:
        import penstock.spark
        from penstock.streams.compile import topics
        from penstock.streams.compile.queries import compile_stage

        if not self.topology.sources:
            raise TopologyError(f"{self.name} reads nothing: begin with app.stream(...) or app.table(...)")
        parts = cut(self.topology)
        counts = topics.prepare(self.topology, parts, self.settings)
        session = penstock.spark.session(self.name) if spark is None else penstock.spark.register(spark)
        self._spark = session
        settings = self.settings
        program = Program(
            settings.application_id,
            settings.client,
            skips_unreadable=settings.deserialization_handler == "continue",
            skips_failed=settings.get("processing.exception.handler") == "continue",
            dead_letters=settings.get("errors.dead.letter.queue.topic.name"),
            caches=settings.caches,
            topics=counts,
        )
        return [compile_stage(session, self.topology, stage, program, settings) for stage in parts.stages]

    def _begin(self, compiled: Compiled) -> StreamingQuery:
        interval_ms = self.settings.get("commit.interval.ms")
        return self._started(compiled.writer.trigger(processingTime=f"{interval_ms} milliseconds"))

    def _started(self, writer: DataStreamWriter) -> StreamingQuery:
        """A query takes a copy of its session's settings when it starts; the session keeps its own."""
        from penstock.spark.settings import ROCKSDB

        assert self._spark is not None
        wanted = {
            "spark.sql.streaming.stateStore.providerClass": ROCKSDB,  # the only one for transformWithState
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        }
        if threads := self.settings.get("num.stream.threads"):
            wanted["spark.sql.shuffle.partitions"] = str(threads)
        before = {name: self._spark.conf.get(name, None) for name in wanted}
        try:
            for name, value in wanted.items():
                self._spark.conf.set(name, value)
            return writer.start()
        finally:
            for name, old in before.items():
                if old is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, old)

    def _run_to_the_end(self, spark: SparkSession | None) -> None:
        """One stage after another, and again those that read what another one has written."""
        stages = self._compiled(spark)
        waiting = list(stages)
        for _ in range(ROUNDS_MAX):
            if not waiting:
                return
            compiled = waiting.pop(0)
            if self._run_once(compiled):
                behind = [other for other in stages if feeds(compiled.stage, other.stage, self.name)]
                waiting += [other for other in behind if other not in waiting]
        raise IllegalState(f"{self.name} feeds itself and comes to no end")

    def _run_once(self, compiled: Compiled) -> bool:
        """All that is there now; whether there was anything."""
        query = self._started(compiled.writer.trigger(availableNow=True))
        self._running = Running(self.name, [query])
        try:
            query.awaitTermination()
        except Exception as error:
            raise _failure(self.name, query, error) from error
        finally:
            query.stop()
            self._running = None
        return any(progress["numInputRows"] for progress in query.recentProgress)


class Running:
    """The queries of an application that runs; iterating gives them."""

    def __init__(self, name: str, queries: list[StreamingQuery]) -> None:
        self.name = name
        self.queries = queries

    def __iter__(self) -> Iterator[StreamingQuery]:
        return iter(self.queries)

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def check(self) -> None:
        """Raise `AppFailed` if a query has failed; then the others are stopped too."""
        for query in self.queries:
            error = query.exception()
            if error is not None:
                self.stop()
                raise _failure(self.name, query, error) from error

    def stop(self, *, batch_seconds: float = BATCH_SECONDS) -> None:
        """End the queries after the batch that each is at, which may take so long."""
        deadline = time.monotonic() + batch_seconds
        waiting = [(query, _batch(query)) for query in self.queries]
        while waiting:
            for query, batch in list(waiting):
                is_late = time.monotonic() > deadline
                is_idle = not query.isActive or not query.status["isTriggerActive"]
                if is_late or is_idle or _batch(query) > batch:
                    query.stop()
                    waiting.remove((query, batch))
            if waiting:
                time.sleep(STOP_LOOK_SECONDS)


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _failure(name: str, query: StreamingQuery, error: BaseException) -> AppFailed:
    from penstock.spark.pipelines.causes import cause_of

    return AppFailed(f"{name}: the query {query.name} failed: {cause_of(str(error))}")


class _signals:
    """Ctrl-C and SIGTERM as an event, as long as it is entered; elsewhere than in the main thread nothing is heard."""

    def __enter__(self) -> threading.Event:
        self.event = threading.Event()
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, lambda *_: self.event.set())
        return self.event

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
