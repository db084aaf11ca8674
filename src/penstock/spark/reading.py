"""In a task: one range of a partition becomes Arrow batches in Spark's schema.

The client fetches ahead on its own thread while Spark takes the last batch; bytes become columns in its kernel. A
broker that is away is waited for. What the log does not have any more is lost, and `losses` says what becomes of it;
gaps between offsets are passed without a word.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock import errors
from penstock.client.cluster import TopicPartition
from penstock.spark import clients, losses
from penstock.spark.columns import ArrowColumns
from penstock.spark.errors import CannotRead, DataLost
from penstock.spark.options import Options
from penstock.spark.plan import Range
from penstock.spark.transforms import Transform

if TYPE_CHECKING:
    from penstock import Consumer

ROWS_PER_BATCH = 20_000
QUIET_S = 3.0  # after this without a record it is asked whether there are any


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, range: Range, topic_id: str | None = None) -> None:
        self.range = range
        self.topic_id = topic_id
        """Of the topic that is meant; None where any of this name will do."""

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

    def read(self, wanted: Range, topic_id: str | None = None) -> Iterator[pa.RecordBatch]:
        columns = ArrowColumns(wanted.partition, self._names)
        batches: Iterator[pa.RecordBatch] = (columns.of(batch) for batch in self._fetched(wanted, topic_id))
        for transform in self._transforms:
            batches = transform(batches)
        for batch in batches:
            yield from pieces(batch, self._rows_max)

    def _fetched(self, wanted: Range, topic_id: str | None) -> Iterator[pa.RecordBatch]:
        """What the client reads, with the client's columns."""
        rest = wanted
        heard_s = time.monotonic()
        is_first = True
        while rest.size > 0:
            last: pa.RecordBatch | None = None
            try:
                # A client that was kept may have an old picture of the cluster, so after an error it is a new one.
                with clients.consumer(self._options.settings, is_new=not is_first) as consumer:
                    reading = self._attempt(consumer, rest)
                    for batch in reading:
                        last = batch
                        yield batch
                        if _end(batch) >= rest.end:
                            break
                    _check_topic(consumer, wanted, topic_id)
                    # Before the read ends, or the client that is kept would fetch on behind it, for nobody.
                    consumer.pause(rest.partition)
                    reading.close()
                return
            except errors.PenstockError as error:
                is_first = False
                if last is not None:
                    rest = rest._replace(start=_end(last))
                    heard_s = time.monotonic()
                is_patient = time.monotonic() - heard_s < self._patience_s
                rest = self._rest_after(error, rest, is_patient=is_patient)

    def _attempt(self, consumer: Consumer, rest: Range) -> Generator[pa.RecordBatch, None, None]:
        partition = rest.partition
        consumer.assign([partition])
        consumer.seek(partition, rest.start)
        if partition in consumer.paused():  # the last task's partition was the same
            consumer.resume(partition)
        timeout = min(QUIET_S, self._patience_s)
        reading = consumer.read(
            {partition: rest.end},
            headers="headers" in self._names,
            timestamp_types="timestampType" in self._names,
            timeout=timeout,
        )
        batches = iter(reading)
        assert isinstance(batches, Generator)  # so it can be closed
        return batches

    def _rest_after(self, error: errors.PenstockError, rest: Range, *, is_patient: bool) -> Range:
        """What is left to read after an error; nothing where all the rest is lost."""
        if not _may_pass(error):
            raise CannotRead(f"{rest} cannot be read: {error}") from error
        try:
            ends = self._ends(rest.partition)
        except errors.PenstockError as other:
            if not other.retriable:
                raise CannotRead(f"{rest} cannot be read: {other}") from other
            if not is_patient:
                raise self._out_of_patience(rest, other) from other
            return rest
        if ends is None:
            return self._lose(rest, rest.end, "the partition is gone")
        first, end = ends
        if rest.start < first:
            return self._lose(rest, min(first, rest.end), f"the log begins at offset {first} now")
        if rest.start >= end:
            return self._lose(rest, rest.end, f"the log ends at offset {end}")
        if not is_patient:
            raise self._out_of_patience(rest, error) from error
        return rest

    def _out_of_patience(self, rest: Range, error: errors.PenstockError) -> CannotRead:
        return CannotRead(
            f"{rest} did not come within {self._patience_s:g} s: {error} (option kafkaConsumer.pollTimeoutMs says how"
            " long a task waits)"
        )

    def _ends(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The first offset of the log and the one behind its last; None where there is no such partition."""
        with clients.admin(self._options.settings) as admin:
            try:
                first = admin.list_offsets({partition: "earliest"})[partition]
                end = admin.list_offsets(
                    {partition: "latest"}, read_committed=self._options.is_committed_only
                )[partition]
            except errors.ItemsFailed as failed:
                cause = failed.failures[partition]
                if isinstance(cause, errors.UnknownTopicOrPartition):
                    return None
                raise cause from failed
        return first.offset, end.offset

    def _lose(self, rest: Range, to: int, why: str) -> Range:
        losses.report([f"{rest._replace(end=to)} cannot be read: {why}"], fails=self._fails)
        return rest._replace(start=to)


def _check_topic(consumer: Consumer, wanted: Range, topic_id: str | None) -> None:
    """A topic that is made anew while it is read has other records at the same offsets. It is too late then to go on
    with what there is, since rows were handed on; but the batch has not been written yet."""
    found = consumer.topic_id(wanted.partition.topic)
    if topic_id is not None and found is not None and found != topic_id:
        raise DataLost(
            f"topic {wanted.partition.topic} was deleted and made anew (its id was {topic_id}, and is {found}) while"
            f" {wanted} were read; a new start of the query tells what was lost"
        )


def _end(batch: pa.RecordBatch) -> int:
    """The offset behind its last record."""
    last: int = batch.column("offset")[-1].as_py()
    return last + 1


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
