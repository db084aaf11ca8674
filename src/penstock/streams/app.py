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
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from penstock.client.errors import IllegalState, PenstockError
from penstock.streams.compile.cut import cut
from penstock.streams.compile.tasks import Program
from penstock.streams.dsl.builder import Builder
from penstock.streams.dsl.graph import State
from penstock.streams.nouns import TopologyError
from penstock.streams.settings import AppSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.streams.compile.queries import Compiled

LOOK_SECONDS = 0.2  # how often it is seen whether a query has failed or a signal has come
ROUNDS_MAX = (
    10_000  # of `until="end"`: a topology that feeds itself for ever should not run for ever in silence
)


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
        settings = self.settings
        program = Program(
            settings.application_id,
            settings.client,
            skips_unreadable=settings.deserialization_handler == "continue",
            skips_failed=settings.get("processing.exception.handler") == "continue",
            dead_letters=settings.get("errors.dead.letter.queue.topic.name"),
            caches=settings.get("statestore.cache.max.bytes") > 0,
            topics=counts,
        )
        return [compile_stage(session, self.topology, stage, program, settings) for stage in parts.stages]

    def _begin(self, compiled: Compiled) -> StreamingQuery:
        interval_ms = self.settings.get("commit.interval.ms")
        return compiled.writer.trigger(processingTime=f"{interval_ms} milliseconds").start()

    def _run_to_the_end(self, spark: SparkSession | None) -> None:
        """One stage after another, again and again until none of them finds anything."""
        stages = self._compiled(spark)
        moved = True
        for _ in range(ROUNDS_MAX):
            if not moved:
                return
            moved = False
            for compiled in stages:
                query = compiled.writer.trigger(availableNow=True).start()
                self._running = Running(self.name, [query])
                try:
                    query.awaitTermination()
                except Exception as error:
                    raise _failure(self.name, query, error) from error
                finally:
                    query.stop()
                    self._running = None
                moved = moved or any(progress["numInputRows"] for progress in query.recentProgress)
        raise IllegalState(f"{self.name} feeds itself and comes to no end")


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

    def stop(self) -> None:
        for query in self.queries:
            query.stop()


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
