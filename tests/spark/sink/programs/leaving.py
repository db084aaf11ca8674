"""A program that ends in the middle of a batch: python leaving.py BROKERS CHECKPOINT."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pyarrow as pa

import penstock.spark
from penstock import Admin

PATIENCE_S = 60.0


def main(brokers: str, checkpoint: str) -> None:
    def never_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from (batch.slice(row, 1) for row in range(batch.num_rows))
        time.sleep(PATIENCE_S)

    spark = penstock.spark.session(
        "leaving", master="local[1]", settings={"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}
    )
    given = {"kafka.bootstrap.servers": brokers}
    stream = spark.readStream.format("penstock").options(**given, subscribe="in", startingOffsets="earliest")
    rows = stream.load().select("value").mapInArrow(never_end, "value binary")
    writer = rows.writeStream.format("penstock").options(**given, topic="out", checkpointLocation=checkpoint)
    writer.start()
    deadline_s = time.monotonic() + PATIENCE_S
    with Admin(brokers) as admin:
        while not admin.list_transactions(states=["Ongoing"]):
            assert time.monotonic() < deadline_s, "rows are written"
            time.sleep(0.05)
    print("in mid batch")


if __name__ == "__main__":
    main(*sys.argv[1:])
