"""A program whose sessions end in the middle of batches: python leaving.py BROKERS CHECKPOINTS.

One session is stopped while the program continues; then two at once are left to the end of the program.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock.spark
from penstock import Admin

PATIENCE_S = 60.0


def never_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(row, 1) for row in range(batch.num_rows))
    time.sleep(PATIENCE_S)


def session() -> SparkSession:
    row_by_row = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}
    return penstock.spark.session("leaving", master="local[2]", settings=row_by_row)


def start(spark: SparkSession, brokers: str, checkpoint: Path) -> None:
    given = {"kafka.bootstrap.servers": brokers}
    stream = spark.readStream.format("penstock").options(
        **given, assign='{"in": [0]}', startingOffsets="earliest"
    )
    rows = stream.load().select("value").mapInArrow(never_end, "value binary")
    writer = rows.writeStream.format("penstock").options(**given, topic="out")
    writer.option("checkpointLocation", str(checkpoint)).start()


def wait_for_open(admin: Admin, count: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found := admin.list_transactions(states=["Ongoing"])) != count:
        assert time.monotonic() < deadline_s, f"{count} transactions are open, and not {len(found)}"
        time.sleep(0.05)


def main(brokers: str, checkpoints: str) -> None:
    with Admin(brokers) as admin:
        stopped = session()
        start(stopped, brokers, Path(checkpoints, "stopped"))
        wait_for_open(admin, 1)
        stopped.stop()
        wait_for_open(admin, 0)
        print("stopped in mid batch")

        one = session()
        other = one.newSession()
        other.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
        start(one, brokers, Path(checkpoints, "one"))
        start(penstock.spark.register(other), brokers, Path(checkpoints, "other"))
        wait_for_open(admin, 2)
    print("two in mid batch")


if __name__ == "__main__":
    main(*sys.argv[1:])
