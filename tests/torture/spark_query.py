"""The program that is killed: a query from `in` to `out`, exactly once. Run by `torture.spark` as a process of its own.

python spark_query.py BOOTSTRAP CHECKPOINT stateless|stateful
"""

from __future__ import annotations

import sys
from pathlib import Path

import penstock.spark

OFFSETS_PER_BATCH = 2000


def main(bootstrap: str, checkpoint: str, kind: str) -> None:
    folder = Path(checkpoint)
    spark = penstock.spark.session(
        f"torture-{kind}",
        master="local[2,4]",  # a task whose worker was killed is tried again
        settings={
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(folder.parent / "local"),
            "spark.sql.warehouse.dir": str(folder.parent / "warehouse"),
        },
    )
    options = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format("penstock").options(
        subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=str(OFFSETS_PER_BATCH), **options
    )
    rows = stream.load().selectExpr("value")
    sink = {"topic": "out", **options}
    if kind == "updating":
        counts = rows.groupBy("value").count().selectExpr("concat(string(value), ':', count) as value")
        writer = counts.writeStream.outputMode("update").foreachBatch(penstock.spark.to_topics(sink))
    else:
        kept = rows.dropDuplicates(["value"]) if kind == "stateful" else rows
        writer = kept.writeStream.format("penstock").options(**sink)
    query = writer.option("checkpointLocation", str(folder)).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
