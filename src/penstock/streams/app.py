"""An application: a topology that runs on Spark.

    app = App("word-count", brokers="localhost:9092")
    words = app.stream("lines", value=str).flat_map(str.split)
    words.group_by_value().count(name="counts").to("word-counts")
    app.run()

`interpret` defines what a topology computes, `compile` how Spark computes it. A stopped App can be started again and
continues where it stopped: its checkpoint is in `state.dir`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

from penstock.client.errors import IllegalState
from penstock.streams.compile.cut import cut, feeds
from penstock.streams.compile.tasks import Program
from penstock.streams.dsl.builder import Builder
from penstock.streams.dsl.graph import State
from penstock.streams.nouns import TopologyError
from penstock.streams.running import AppFailed, Draining, Running, heeding_signals
from penstock.streams.settings import AppSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.streams.compile.purging import PurgeListener
    from penstock.streams.compile.queries import Compiled

__all__ = ["App", "AppFailed"]

LOOK_SECONDS = 0.2  # interval at which failed queries and signals are noticed


class App(Builder):
    """Streams and tables that run on Spark. Settings have Kafka's names: `commit_interval_ms=500`, or
    `settings={"commit.interval.ms": 500}`."""

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
        self._purging: PurgeListener | None = None

    @property
    def name(self) -> str:
        return self.settings.application_id

    def start(self, spark: SparkSession | None = None, *, until: Literal["end"] | None = None) -> Running:
        """Start all queries and return.

        With `until="end"` only the first query starts. Call `go_on` on the result until it returns False: it starts
        the other queries in turn until all existing input is processed.
        """
        if until not in (None, "end"):
            raise TopologyError(f"until must be `end` or None, not {until!r}")
        if self._running is not None and self._running.is_active:
            raise IllegalState(f"{self.name} is already running")
        compiled = self._compiled(spark)
        if until is None:
            self._running = Running(self.name, self._begin)
            self._running.begin(*compiled)
        else:
            self._running = Draining(self.name, compiled, self._begin_once, self._feeds)
            self._running.go_on()
        return self._running

    def run(self, spark: SparkSession | None = None, *, until: Literal["end"] | None = None) -> None:
        """Run until Ctrl-C or SIGTERM, and finish the current batch first. With `until="end"`, stop once all existing
        input has been processed by all stages."""
        running = self.start(spark, until=until)
        try:
            with heeding_signals() as stopping:
                while not stopping.is_set() and running.go_on():
                    running.wait(LOOK_SECONDS)
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop each query after its current batch. Does nothing if no query runs."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def state(self, name: str) -> State[Any, Any]:
        """The state of a table, read from its changelog. This also works in a process that does not run the app."""
        from penstock.streams.states import table_state

        if name not in self._states:
            self._states[name] = table_state(self.topology, name, self.settings)
        return self._states[name]

    def _compiled(self, spark: SparkSession | None) -> list[Compiled]:
        import penstock.spark
        from penstock.streams.compile import topics
        from penstock.streams.compile.fingerprint import fingerprint_of
        from penstock.streams.compile.notes import check_topology
        from penstock.streams.compile.purging import listener_for
        from penstock.streams.compile.queries import compile_stage

        if not self.topology.sources:
            raise TopologyError(f"{self.name} has no input: start with app.stream(...) or app.table(...)")
        parts = cut(self.topology)
        planned = topics.plan(self.topology, parts, self.settings)
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
            topics=planned.counts,
        )
        compiled = [compile_stage(session, self.topology, stage, program, settings) for stage in parts.stages]
        fingerprint = fingerprint_of((each.stage, each.domains) for each in compiled)
        check_topology(session, self.name, settings.state_folder, fingerprint)
        planned.create(settings)  # last: a rejected program must not leave topics behind
        self._purging = listener_for(session, settings, parts.stages)
        return compiled

    def _begin(self, compiled: Compiled) -> StreamingQuery:
        interval_ms = self.settings.get("commit.interval.ms")
        return self._started(compiled.writer.trigger(processingTime=f"{interval_ms} milliseconds"))

    def _begin_once(self, compiled: Compiled) -> StreamingQuery:
        settings = {}
        if compiled.domains is not None and compiled.domains.time_mode == "ProcessingTime":
            # With processing-time timers Spark would schedule empty batches forever.
            settings["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
        return self._started(compiled.writer.trigger(availableNow=True), settings)

    def _feeds(self, one: Compiled, other: Compiled) -> bool:
        return feeds(one.stage, other.stage, self.name)

    def _started(self, writer: DataStreamWriter, settings: Mapping[str, str] | None = None) -> StreamingQuery:
        """Start a query with settings of its own. A query copies the session's settings when it starts, so they are
        restored afterwards."""
        from penstock.spark.settings import ROCKSDB

        assert self._spark is not None
        wanted = {
            "spark.sql.streaming.stateStore.providerClass": ROCKSDB,  # required by transformWithState
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            **(settings or {}),
        }
        if threads := self.settings.get("num.stream.threads"):
            wanted["spark.sql.shuffle.partitions"] = str(threads)
        before = {name: self._spark.conf.get(name, None) for name in wanted}
        try:
            for name, value in wanted.items():
                self._spark.conf.set(name, value)
            with nullcontext() if self._purging is None else self._purging.listening():
                return writer.start()
        finally:
            for name, old in before.items():
                if old is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, old)
