"""In a task: one range of a partition becomes Arrow batches in Spark's schema.

The client fetches ahead on its own thread while Spark takes the last batch; bytes become columns in its kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.spark import clients
from penstock.spark.columns import ArrowColumns, chosen
from penstock.spark.options import Options
from penstock.spark.plan import Range

ROWS_PER_BATCH = 20_000


class RangePartition(InputPartition):
    """One task."""

    def __init__(self, range: Range) -> None:
        self.range = range

    def __repr__(self) -> str:
        return str(self.range)


def read_range(wanted: Range, options: Options) -> Iterator[pa.RecordBatch]:
    names = chosen(options.get("columns"), with_headers=options.get("includeHeaders"))
    rows_max = options.get("rowsPerBatch") or ROWS_PER_BATCH
    columns = ArrowColumns(wanted.partition, names)
    with clients.consumer(options.settings) as consumer:
        consumer.assign([wanted.partition])
        consumer.seek(wanted.partition, wanted.start)
        timeout = options.get("kafkaConsumer.pollTimeoutMs") / 1000
        reading = consumer.read({wanted.partition: wanted.end}, headers="headers" in names, timeout=timeout)
        for read in reading:
            yield from pieces(columns.of(read), rows_max)


def pieces(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    """Equal ones: a small rest would cost as much as a full one."""
    count = math.ceil(batch.num_rows / rows_max)
    rows = math.ceil(batch.num_rows / count) if count else 0
    for start in range(0, batch.num_rows, rows or 1):
        yield batch.slice(start, rows)
