"""Reads one range of a partition in a task, as Arrow batches in Spark's schema.

The client fetches ahead on its own thread while Spark takes the last batch; its compiled kernel turns bytes into
columns. The task waits for an unavailable broker. Offsets that the log no longer has are reported to `losses`; gaps
between offsets are normal.
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
QUIET_S = 3.0  # without a record for this long, the reader checks whether the log still has any


class RangePartition(InputPartition):
    """The range of one task."""

    def __init__(self, range: Range, topic_id: str | None = None) -> None:
        self.range = range
        self.topic_id = topic_id
        """The id of the planned topic; None if any topic of this name will do."""

    def __repr__(self) -> str:
        return str(self.range)


class RangeReader:
    """Reads ranges with the columns of a query. Created on the driver, pickled to the tasks."""

    def __init__(self, options: Options, names: tuple[str, ...], *transforms: Transform) -> None:
        """Applies the transforms one after another to the columns `names`."""
        self._options = options
        self._names = names
        self._transforms = transforms
        self._rows_max = options.get("rowsPerBatch") or ROWS_PER_BATCH
        self._patience_s = options.get("kafkaConsumer.pollTimeoutMs") / 1000
        self._fails = options.get("failOnDataLoss")

    def read(self, wanted: Range, topic_id: str | None = None) -> Iterator[pa.RecordBatch]:
        columns = ArrowColumns(wanted.partition, self._names)
        batches: Iterator[pa.RecordBatch] = (columns.of(batch) for batch in self._fetch(wanted, topic_id))
        for transform in self._transforms:
            batches = transform(batches)
        for batch in batches:
            yield from pieces(batch, self._rows_max)

    def _fetch(self, wanted: Range, topic_id: str | None) -> Iterator[pa.RecordBatch]:
        """Batches of the client, with the client's columns."""
        rest = wanted
        last_record_s = time.monotonic()
        is_first = True
        while rest.size > 0:
            last: pa.RecordBatch | None = None
            try:
                # A pooled client may have stale metadata, so use a new one after an error.
                with clients.consumer(self._options.settings, is_new=not is_first) as consumer:
                    reading = self._attempt(consumer, rest)
                    for batch in reading:
                        last = batch
                        yield batch
                        if _end(batch) >= rest.end:
                            break
                    _check_topic(consumer, wanted, topic_id)
                    # Pause before the read ends, or the pooled client would fetch on for no reader.
                    consumer.pause(rest.partition)
                    reading.close()
                return
            except errors.PenstockError as error:
                is_first = False
                if last is not None:
                    rest = rest._replace(start=_end(last))
                    last_record_s = time.monotonic()
                is_patient = time.monotonic() - last_record_s < self._patience_s
                rest = self._rest_after(error, rest, is_patient=is_patient)

    def _attempt(self, consumer: Consumer, rest: Range) -> Generator[pa.RecordBatch, None, None]:
        partition = rest.partition
        consumer.assign([partition])
        consumer.seek(partition, rest.start)
        if partition in consumer.paused():  # the previous task read the same partition
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
        """What is left to read after an error; an empty range if the rest is lost."""
        if not _is_recoverable(error):
            raise CannotRead(f"cannot read {rest}: {error}") from error
        try:
            ends = self._ends(rest.partition)
        except errors.PenstockError as other:
            if not other.retriable:
                raise CannotRead(f"cannot read {rest}: {other}") from other
            if not is_patient:
                raise self._timed_out(rest, other) from other
            return rest
        if ends is None:
            return self._lose(rest, rest.end, "the partition was deleted")
        first, end = ends
        if rest.start < first:
            return self._lose(rest, min(first, rest.end), f"the log starts at offset {first}")
        if rest.start >= end:
            return self._lose(rest, rest.end, f"the log ends at offset {end}")
        if not is_patient:
            raise self._timed_out(rest, error) from error
        return rest

    def _timed_out(self, rest: Range, error: errors.PenstockError) -> CannotRead:
        return CannotRead(
            f"could not read {rest} within {self._patience_s:g} s: {error} (the option kafkaConsumer.pollTimeoutMs sets"
            " how long a task waits)"
        )

    def _ends(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The first offset of the log and its end; None if the partition does not exist."""
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
        losses.report([f"cannot read {rest._replace(end=to)}: {why}"], fails=self._fails)
        return rest._replace(start=to)


def _check_topic(consumer: Consumer, wanted: Range, topic_id: str | None) -> None:
    """A topic that is recreated while it is read has other records at the same offsets. Rows were already passed on, so
    the task must fail; the batch has not been written yet."""
    found = consumer.topic_id(wanted.partition.topic)
    if topic_id is not None and found is not None and found != topic_id:
        raise DataLost(
            f"topic {wanted.partition.topic} was deleted and recreated (its id was {topic_id}, now {found}) during the"
            f" read of {wanted}; restart the query to see what was lost"
        )


def _end(batch: pa.RecordBatch) -> int:
    """The offset after its last record."""
    last: int = batch.column("offset")[-1].as_py()
    return last + 1


def _is_recoverable(error: errors.PenstockError) -> bool:
    """Whether the error means a missing offset, or a cluster that may come back."""
    return error.retriable or isinstance(
        error, errors.OffsetOutOfRange | errors.LogTruncated | errors.TimedOut
    )


def pieces(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    """Equal parts: a small rest would cost as much as a full one."""
    if batch.num_rows <= rows_max:
        if batch.num_rows:
            yield batch
        return
    rows = math.ceil(batch.num_rows / math.ceil(batch.num_rows / rows_max))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
