"""In a task: one range of a partition becomes Arrow batches in Spark's schema.

The client fetches ahead on its own thread while Spark takes the last batch; bytes become columns in its kernel. A
broker that is away is waited for. What the log does not have any more is lost, and `losses` says what becomes of it;
gaps between offsets are passed without a word.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock import Consumer, errors
from penstock.spark import clients, losses
from penstock.spark.columns import ArrowColumns
from penstock.spark.options import Options
from penstock.spark.plan import Range
from penstock.spark.transforms import Transform

ROWS_PER_BATCH = 20_000
QUIET_S = 3.0  # after this without a record it is asked whether there are any


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, range: Range) -> None:
        self.range = range

    def __repr__(self) -> str:
        return str(self.range)


class RangeReader:
    """Reads ranges with the columns of a query. Made on the driver, pickled to the tasks."""

    def __init__(self, options: Options, names: tuple[str, ...], *transforms: Transform) -> None:
        """The transforms are applied one after another to the columns `names`."""
        self._options = options
        self._names = names
        self._transforms = transforms
        self._rows_max = options.get("rowsPerBatch") or ROWS_PER_BATCH
        self._patience_s = options.get("kafkaConsumer.pollTimeoutMs") / 1000
        self._fails = options.get("failOnDataLoss")

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        columns = ArrowColumns(wanted.partition, self._names)
        batches: Iterator[pa.RecordBatch] = (columns.of(batch) for batch in self._fetched(wanted))
        for transform in self._transforms:
            batches = transform(batches)
        for batch in batches:
            yield from pieces(batch, self._rows_max)

    def _fetched(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """What the client reads, with the client's columns."""
        at = wanted.start
        heard_s = time.monotonic()
        with clients.consumer(self._options.settings) as consumer:
            while at < wanted.end:
                last: pa.RecordBatch | None = None
                try:
                    for batch in self._attempt(consumer, wanted, at):
                        last = batch
                        yield batch
                    return
                except errors.PenstockError as error:
                    if last is not None:
                        at = last.column("offset")[-1].as_py() + 1
                        heard_s = time.monotonic()
                    is_last_chance = time.monotonic() - heard_s > self._patience_s
                    at = self._go_on(consumer, wanted._replace(start=at), error, is_last_chance)

    def _attempt(self, consumer: Consumer, wanted: Range, at: int) -> Iterator[pa.RecordBatch]:
        partition = wanted.partition
        consumer.assign([partition])
        consumer.seek(partition, at)
        timeout = min(QUIET_S, self._patience_s)
        return iter(consumer.read({partition: wanted.end}, headers="headers" in self._names, timeout=timeout))

    def _go_on(
        self, consumer: Consumer, rest: Range, error: errors.PenstockError, is_last_chance: bool
    ) -> int:
        """Where to go on after an error; the range's end where all the rest is lost."""
        if isinstance(error, errors.UnknownTopicOrPartition):
            return self._lose(rest, rest.end, "the partition is gone")
        if not _may_pass(error):
            raise error
        try:
            first = consumer.beginning_offsets(rest.partition)[rest.partition]
            end = consumer.end_offsets(rest.partition)[rest.partition]
        except errors.UnknownTopicOrPartition:
            return self._lose(rest, rest.end, "the partition is gone")
        except errors.PenstockError as other:
            if is_last_chance or not _may_pass(other):
                raise
            return rest.start
        if rest.start < first:
            return self._lose(rest, min(first, rest.end), f"the log begins at offset {first} now")
        if rest.start >= end:
            return self._lose(rest, rest.end, f"the log ends at offset {end}")
        if is_last_chance:
            raise error
        return rest.start

    def _lose(self, rest: Range, to: int, why: str) -> int:
        losses.report([f"{rest._replace(end=to)} cannot be read: {why}"], fails=self._fails)
        return to


def _may_pass(error: errors.PenstockError) -> bool:
    """Whether it tells of a place that is not there, or of a cluster that may come back."""
    return error.retriable or isinstance(
        error, errors.OffsetOutOfRange | errors.LogTruncated | errors.TimedOut
    )


def pieces(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    """Equal ones: a small rest would cost as much as a full one."""
    if batch.num_rows <= rows_max:
        if batch.num_rows:
            yield batch
        return
    rows = math.ceil(batch.num_rows / math.ceil(batch.num_rows / rows_max))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
