"""One job on Spark, in a process of its own: `python -m bench.spark_runs read penstock PORT TOPIC`.

Prints one line of JSON. A session starts and the job runs some times before it is measured, so that the JVM is warm;
every job is the same program for both formats, `penstock` and Spark's own `kafka`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

from bench.peers import JARS

CONNECTOR = JARS.parent / "spark"
WARMING_RUNS = 4
WRITE_ROWS = 2_000_000
BATCHES, BATCH_ROWS = 40, 100
STREAM_LIMIT_S = 300


def session(data_format: str, cores: int = 2) -> SparkSession:
    """The same session for both, but for the connector's jars."""
    import penstock.spark

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "2g"}
    if data_format == "kafka":
        settings["spark.jars"] = ",".join(str(jar) for jar in sorted(CONNECTOR.glob("*.jar")))
    return penstock.spark.session("bench", master=f"local[{cores}]", settings=settings)


def best_of(runs: int, job: Callable[[], None]) -> float:
    """The shortest time of a few runs, in seconds, after as many that warm: the JVM compiles for as long."""
    times = []
    for _ in range(WARMING_RUNS + runs):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return min(times[WARMING_RUNS:])


def rows_of(port: int, topic: str) -> int:
    from penstock import Admin

    with Admin(f"127.0.0.1:{port}") as admin:
        return sum(offset.offset for offset in admin.topic_offsets([topic]).values())


def source(spark: SparkSession, data_format: str, port: int, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format(data_format).option("kafka.bootstrap.servers", f"127.0.0.1:{port}")
    return reader.option("subscribe", topic).options(**options).load()


def read(data_format: str, port: int, topic: str, cores: str = "2") -> float:
    """Rows a second of a whole topic, all columns, to nowhere; on so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    spark = session(data_format, int(cores))

    def job() -> None:
        source(spark, data_format, port, topic).write.format("noop").mode("overwrite").save()

    return rows_of(port, topic) / best_of(4, job)


def stream(data_format: str, port: int, topic: str) -> float:
    """Rows a second of a whole topic as a stream with `availableNow`, to nowhere."""
    spark = session(data_format)

    def job() -> None:
        reader = spark.readStream.format(data_format).option("kafka.bootstrap.servers", f"127.0.0.1:{port}")
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        with tempfile.TemporaryDirectory() as folder:
            writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
            writer.trigger(availableNow=True).start().awaitTermination(STREAM_LIMIT_S)

    return rows_of(port, topic) / best_of(4, job)


def write(data_format: str, port: int, topic: str, guarantee: str = "at-least-once") -> float:
    """Rows a second of key and value into a topic."""
    spark = session(data_format)
    rows = spark.range(0, WRITE_ROWS, 1, 2).selectExpr(
        "cast(cast(id % 100000 as string) as binary) as key", "cast(repeat('x', 100) as binary) as value"
    )
    rows = rows.cache()
    rows.count()

    def job() -> None:
        writer = rows.write.format(data_format).option("kafka.bootstrap.servers", f"127.0.0.1:{port}")
        if data_format == "penstock":
            writer = writer.option("guarantee", guarantee)
        writer.option("topic", topic).mode("append").save()

    return WRITE_ROWS / best_of(4, job)


def small_batches(data_format: str, port: int, topic: str) -> float:
    """Milliseconds that the median micro-batch of 100 rows takes; `rate` is a source and a sink of Spark's own."""
    spark = session("penstock" if data_format == "rate" else data_format)
    with tempfile.TemporaryDirectory() as folder:
        if data_format == "rate":
            reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS)
            query = reader.load().writeStream.format("noop").option("checkpointLocation", folder).start()
            while len(_durations(query)) < BATCHES:
                time.sleep(0.1)
            query.stop()
        else:
            reader = spark.readStream.format(data_format).option(
                "kafka.bootstrap.servers", f"127.0.0.1:{port}"
            )
            frame = reader.option("subscribe", topic).option("startingOffsets", "earliest")
            frame = frame.option("maxOffsetsPerTrigger", str(BATCH_ROWS)).load().select("key", "value")
            writer = frame.writeStream.format(data_format).option(
                "kafka.bootstrap.servers", f"127.0.0.1:{port}"
            )
            writer = writer.option("topic", f"{topic}-out").option("checkpointLocation", folder)
            query = writer.start()
            while len(_durations(query)) < BATCHES and query.exception() is None:
                time.sleep(0.1)
            query.stop()
        return statistics.median(_durations(query)[BATCHES // 2 :])


def _durations(query: StreamingQuery) -> list[float]:
    return [
        progress["durationMs"]["triggerExecution"]
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


def word_count(data_format: str, port: int, topic: str) -> float:
    """Seconds for a word count with Penstock Streams, from its start until all results are written."""
    from penstock.streams import App

    spark = session(data_format)
    with tempfile.TemporaryDirectory() as folder:
        app = App(f"count-{topic}", brokers=f"127.0.0.1:{port}", state_dir=folder)
        words = app.stream(topic, value=str).flat_map(str.split)
        words.group_by_value().count(name="counts").to(f"{topic}-counts")
        began = time.perf_counter()
        app.run(until="end", spark=spark)
        return time.perf_counter() - began


JOBS: dict[str, Callable[..., float]] = {
    "read": read,
    "stream": stream,
    "write": write,
    "small-batches": small_batches,
    "word-count": word_count,
}

if __name__ == "__main__":
    what, data_format, port, *rest = sys.argv[1:]
    print(json.dumps(JOBS[what](data_format, int(port), *rest)), flush=True)
    os._exit(0)  # the JVM needs no farewell
