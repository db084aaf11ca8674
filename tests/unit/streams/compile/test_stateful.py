"""Spark's calls to a stateful stage: timers, and the time of a batch. Spark is a small fake."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from harness.stages import Stages, Written
from penstock.streams import Builder, Context, KeyValueState, Processor, Record, key_value_store, within
from penstock.streams.compile.shuffle import SHIFT_MS

ONE = (1).to_bytes(8, "big")


class Buckets:
    """Keeps pages and timers of a stage's buckets as Spark does, and sets the time."""

    def __init__(self, app: Builder) -> None:
        self.stages = Stages(app.topology, partitions=1)
        (self.running,) = self.stages.running
        assert self.running.domains is not None
        self.domains = self.running.domains
        self.bucket: Any = None
        self.pages: dict[Any, dict[int, Any]] = defaultdict(dict)
        self.timers: set[tuple[Any, int]] = set()
        self.watermark_ms = 0  # as in Spark before the first batch
        self.domains.init(self)

    # What the stage asks of Spark's handle, and of its map state.

    def getMapState(self, *_: str) -> Buckets:
        return self

    def registerTimer(self, at_ms: int) -> None:
        self.timers.add((self.bucket, at_ms))

    def getValue(self, key: tuple[int]) -> Any:
        return self.pages[self.bucket].get(key[0])

    def updateValue(self, key: tuple[int], value: Any) -> None:
        self.pages[self.bucket][key[0]] = value

    def removeKey(self, key: tuple[int]) -> None:
        self.pages[self.bucket].pop(key[0], None)

    def exists(self) -> bool:
        return bool(self.pages[self.bucket])

    def batch(self, now_ms: int, *records: tuple[str, str, bytes, int]) -> None:
        """One batch of these records: topic, key, value, timestamp."""
        for topic, key, value, timestamp_ms in records:
            self.stages.send(topic, Written(key.encode(), value, timestamp_ms))
        rows: list[dict[str, Any]] = []
        for topic, partition, start, end in self.stages._ranges(self.running):
            read = self.running.task(self.stages._read(topic, partition, start, end))
            rows += [row for batch in read for row in batch.to_pylist()]
            self.running.positions[topic, partition] = end
        cells = defaultdict(list)
        for row in rows:
            cells[row["domain"], row["bucket"]].append(Row(cell=row["cell"]))
        times = TimerValues(now_ms, self.watermark_ms)
        written = []
        for bucket, own in cells.items():
            self.bucket = bucket
            written += list(self.domains.handleInputRows(bucket, iter(own), times))
        clock_ms = self.watermark_ms if self.domains.time_mode == "EventTime" else now_ms
        for bucket, at_ms in sorted(timer for timer in self.timers if timer[1] <= clock_ms):
            self.bucket = bucket
            written += list(self.domains.handleExpiredTimer(bucket, times, ExpiredTimerInfo(at_ms)))
            self.timers.discard((bucket, at_ms))  # afterwards, as in Spark
        self.stages._write([row["cell"] for row in written])
        shown_ms = [round(row["at"].timestamp() * 1000) - SHIFT_MS for row in rows]
        self.watermark_ms = max([self.watermark_ms, *shown_ms])

    def times_written(self) -> list[int]:
        return [record.timestamp_ms for record in self.stages.written("out")]


class Summing(Processor[str, int, str, int]):
    """Forwards every ten seconds the sum since the last time."""

    clock: Any

    def init(self, context: Context[str, int]) -> None:
        self.sums: KeyValueState[str, int] = context.store("sums")
        context.schedule(10, self.give, clock=self.clock)

    def process(self, record: Record[str, int]) -> None:
        self.sums.put(record.key, (self.sums.get(record.key) or 0) + record.value)

    def give(self, now_ms: int) -> None:
        for key, value in list(self.sums.items()):
            self.context.forward(Record(key, value, now_ms))
            self.sums.delete(key)


class ByWallClock(Summing):
    clock = "wall"


class ByStreamTime(Summing):
    clock = "stream"

    def give(self, now_ms: int) -> None:
        self.context.forward(Record("fired", 0, now_ms))


def summing(processor: type[Summing]) -> Builder:
    app = Builder()
    store = key_value_store("sums", key=str, value=int)
    numbers = app.stream("numbers", key=str, value=int)
    numbers.process(processor, stores=[store], key=str, value=int).to("out")
    return app


def test_a_replayed_batch_fires_the_same_timers() -> None:
    """Its output is already written and is not written again: records of a timer that fired then were lost."""
    spark = Buckets(summing(ByWallClock))

    spark.batch(100_000, ("numbers", "a", ONE, 1000))
    spark.batch(105_000, ("numbers", "a", ONE, 1001))
    assert spark.times_written() == []  # however late the clock of this machine is

    spark.batch(110_000)
    assert [(record.value, record.timestamp_ms) for record in spark.stages.written("out")] == [
        ((2).to_bytes(8, "big"), 110_000)
    ]


def test_stream_time_timers_do_not_fire_before_the_first_record() -> None:
    spark = Buckets(summing(ByStreamTime))

    spark.batch(100_000, ("numbers", "a", ONE, 1000))

    assert spark.times_written() == [1000]


def test_buffered_records_are_emitted_when_another_operator_advances_stream_time() -> None:
    """The bucket's timer fired, the record was not emitted, and no timer was left."""
    app = Builder()
    left, right = (app.stream(topic, key=str, value=str) for topic in ("left", "right"))
    table = app.table("table", key=str, value=str)
    joined = left.left_join(right, lambda one, other: f"{one} {other}", within=within(0.01), value=str)
    joined.left_join(table, lambda one, other: f"{one} {other}").to("out")
    spark = Buckets(app)

    spark.batch(0, ("left", "a", b"x", 1000))
    spark.batch(1, ("table", "a", b"t", 2000))
    spark.batch(2)

    assert [record.value for record in spark.stages.written("out")] == [b"x None t"]
