"""The program to be killed: queries with exactly-once sinks. `torture.spark` runs it as a process.

python spark_query.py BOOTSTRAP FOLDER KIND...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import penstock.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OFFSETS_PER_BATCH = 2000


def main(bootstrap: str, folder: str, *kinds: str) -> None:
    spark = penstock.spark.session(
        "torture",
        master="local[2,4]",  # a task whose worker was killed is retried
        settings={
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        },
    )
    for kind in kinds:
        if kind in WRITERS:
            rows = _rows(spark, bootstrap, f"{kind}-in")
            writer = WRITERS[kind](rows, {"kafka.bootstrap.servers": bootstrap, "topic": f"{kind}-out"})
            writer.option("checkpointLocation", f"{folder}/checkpoints/{kind}").start()
        else:
            _start_app(spark, bootstrap, kind)
    spark.streams.awaitAnyTermination()


def _rows(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH)}
    stream = spark.readStream.format("penstock").options(
        subscribe=topic, startingOffsets="earliest", **options
    )
    return stream.load().selectExpr("value")


def _stateless(rows: DataFrame, sink: dict[str, str]) -> DataStreamWriter:
    return rows.writeStream.format("penstock").options(**sink)


def _stateful(rows: DataFrame, sink: dict[str, str]) -> DataStreamWriter:
    return _stateless(rows.dropDuplicates(["value"]), sink)


def _updating(rows: DataFrame, sink: dict[str, str]) -> DataStreamWriter:
    counts = rows.groupBy("value").count()
    counts = counts.selectExpr("value as key", "concat(string(value), ':', count) as value")
    return counts.writeStream.outputMode("update").foreachBatch(penstock.spark.to_topics(sink))


WRITERS = {"stateless": _stateless, "stateful": _stateful, "updating": _updating}


def _start_app(spark: SparkSession, bootstrap: str, kind: str) -> None:
    """A streams application next to other queries."""
    from penstock.spark.pipelines.loading import load

    os.environ["PENSTOCK_BOOTSTRAP_SERVERS"] = bootstrap
    app = load(Path(__file__).with_name(f"spark_{kind}.py")).app
    assert app is not None
    app.start(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
