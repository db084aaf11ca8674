"""The writers that Spark calls, for batches and for streams, each at least once or exactly once.

Spark pickles a writer to its tasks and commits on another object in another process, so a writer knows only its
arguments; everything else travels in commit messages. A task learns its query, run and batch from
`internals.stream_job`.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.client.errors import PenstockError
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.client.producer.sync import Producer
from penstock.spark import clients, transforms
from penstock.spark.errors import BadOption, SparkError
from penstock.spark.internals import stream_job
from penstock.spark.options import Options
from penstock.spark.sink import AT_LEAST_ONCE, PREFIX, foreach_batch, protocol
from penstock.spark.sink.batch_write import BATCH, BatchWrite
from penstock.spark.sink.decision import TaskAttempt, TaskResult, check_same_write, has_finished_earlier
from penstock.spark.sink.foreach_batch import StreamBatch
from penstock.spark.sink.messages import named
from penstock.spark.sink.rows import COLUMNS, check_schema, records_of, rejected_row
from penstock.spark.sink.transactions import SinkConnection, connection_of, with_long_timeouts

logger = logging.getLogger("penstock.spark")

FREEZES = 3  # per process: its first commit or task imports more than creating a writer did


def batch_writer(options: Options, schema: StructType, overwrite: bool) -> DataSourceWriter:
    if overwrite:
        raise BadOption("a topic cannot be overwritten, only appended to: write with mode append")
    _freeze_garbage()
    rows = RowWriter.of(options, schema)
    if options.is_set(foreach_batch.OPTION):
        return ReplayedBatchWriter(rows, StreamBatch.unpack(options.get(foreach_batch.OPTION)))
    if options.is_exactly_once(is_stream=False):
        return TransactionalBatchWriter(rows, BatchWrite.of(options.get("writeId")))
    return BatchWriter(rows)


def stream_writer(options: Options, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """`overwrite` is ignored, as in the connector: in output mode complete, the rows of every batch are appended."""
    _freeze_garbage()
    rows = RowWriter.of(options, schema)
    if options.is_exactly_once(is_stream=True):
        return ExactlyOnceWriter(rows)
    return StreamWriter(rows)


_uses = 0


def _freeze_garbage() -> None:
    """Spark creates a writer twice per micro-batch, in processes that it keeps, and runs the garbage collector after
    each use: 30 ms of CPU for the loaded modules, while a micro-batch of 100 rows takes 10 ms in all. Objects that
    exist after the first uses will stay, and need not be traversed again."""
    global _uses
    _uses += 1
    if _uses <= FREEZES:
        gc.freeze()


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Writes rows as records: what all writers have in common."""

    settings: dict[str, str]
    topic: str | None
    columns: tuple[str, ...]
    prefix: str
    transform: str | None = None
    """Turns Spark's rows into the rows to write: the internal option `penstock.transform`."""

    @classmethod
    def of(cls, options: Options, schema: StructType) -> RowWriter:
        topic = options.get("topic")
        prefix = options.get("transactionalIdPrefix") or PREFIX
        if options.is_set(transforms.OPTION):
            columns = tuple(column.name for column in COLUMNS)
            return cls(options.settings, topic, columns, prefix, options.get(transforms.OPTION))
        return cls(options.settings, topic, check_schema(schema, topic), prefix)

    def transformed(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows to write."""
        return iterator if self.transform is None else transforms.unpack(self.transform)(iterator)

    def send(self, producer: Producer, batch: pa.RecordBatch) -> None:
        records = records_of(batch, self.columns)
        try:
            producer.send_arrow(records, topic=self.topic)
        except PenstockError as error:
            if (rejected := rejected_row(error, records, self.topic)) is None:
                raise
            raise rejected from error

    def write(self, iterator: Iterator[pa.RecordBatch]) -> int:
        """Write at least once; returns the number of rows."""
        _freeze_garbage()
        rows = 0
        with clients.producer(with_long_timeouts(self.settings)) as producer:
            for batch in self.transformed(iterator):
                self.send(producer, batch)
                rows += batch.num_rows
            producer.flush()
        return rows

    def write_transaction(
        self,
        iterator: Iterator[pa.RecordBatch],
        transactional_id: str,
        connection: SinkConnection,
        *,
        is_two_phase: bool,
    ) -> tuple[PreparedTransaction | None, int]:
        """Write to a transaction that stays open for the driver to end; None without rows."""
        producer: Producer | None = None
        rows = 0
        try:
            for batch in self.transformed(iterator):
                if batch.num_rows:
                    producer = producer or connection.begin(transactional_id, is_two_phase=is_two_phase)
                    self.send(producer, batch)
                    rows += batch.num_rows
            return None if producer is None else producer.prepare_transaction(), rows
        finally:
            if producer is not None:
                producer.close()  # aborts a transaction that was not prepared


@dataclass
class RowsWritten(WriterCommitMessage):
    rows: int


@dataclass
class TaskMessage(WriterCommitMessage):
    result: TaskResult
    rows: int
    """How many rows the task received, whether it wrote them or found them written."""


class BatchWriter(DataSourceArrowWriter):
    """At least once: records of a failed task stay, and are written again."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return RowsWritten(self._rows.write(iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """At least once: a replayed batch is written again."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return RowsWritten(self._rows.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Written records stay."""


class TransactionalBatchWriter(DataSourceArrowWriter):
    """All rows of a job or none: one transaction per task, and a durable decision before the first commit. See
    `protocol`, and `batch_write` for what identifies the write."""

    def __init__(self, rows: RowWriter, write: BatchWrite) -> None:
        self._rows = rows
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        task_attempt = self._write.task_attempt(
            partition=context.partitionId(), attempt=context.attemptNumber()
        )
        return _write_once(self._rows, iterator, task_attempt, is_two_phase=self._write.is_named)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        results, prefix = _results(messages), self._rows.prefix
        assert results, "Spark runs a task even if there are no rows"
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.commit(admin, results, BATCH, prefix=prefix))
        check_same_write(results, rows=_row_count(messages))
        if results[0].decided is None:
            return
        if has_finished_earlier(results):
            logger.warning(
                "an earlier job left %s unfinished; this job committed the rest", named(self._write.sink)
            )
        else:
            logger.warning("%s was already committed; nothing was written", named(self._write.sink))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        write, prefix = self._write, self._rows.prefix
        with connection_of(self._rows.settings) as connection:
            ledger = connection.run(
                lambda admin: protocol.abort_write(admin, write.sink, write.run, prefix=prefix)
            )
        decision = ledger.decision
        if decision is None:
            return
        was_decided_before = any(each.decided is not None for each in _results(messages))
        if decision.run == write.run and not was_decided_before:
            logger.warning("the job of %s failed, but its rows are committed", named(write.sink))
        else:
            logger.warning(
                "the job of %s failed; another job committed this write, with %d rows",
                named(write.sink),
                decision.rows,
            )


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """All rows of a micro-batch, exactly once: see `protocol`."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write_once(self._rows, iterator, _task_attempt(_context()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        results = _results(messages)
        prefix = self._rows.prefix
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.commit(admin, results, batchId, prefix=prefix))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        results = _results(messages)
        prefix = self._rows.prefix
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.abort(admin, results, batchId, prefix=prefix))


class ReplayedBatchWriter(DataSourceArrowWriter):
    """A micro-batch of a stream that `foreach_batch` writes: like `ExactlyOnceWriter`, but for Spark it is an
    ordinary batch write, so the batch is in an option."""

    def __init__(self, rows: RowWriter, batch: StreamBatch) -> None:
        self._rows = rows
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        sink, run, batch = self._batch.sink, self._batch.run, self._batch.batch
        task_attempt = TaskAttempt(sink, run, batch, context.partitionId(), context.attemptNumber())
        return _write_once(self._rows, iterator, task_attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if results := _results(messages):  # a batch without partitions has nothing to decide
            prefix, batch = self._rows.prefix, self._batch.batch
            with connection_of(self._rows.settings) as connection:
                connection.run(lambda admin: protocol.commit(admin, results, batch, prefix=prefix))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        results, prefix, batch = _results(messages), self._rows.prefix, self._batch.batch
        task_attempt = TaskAttempt(self._batch.sink, self._batch.run, batch, 0)
        with connection_of(self._rows.settings) as connection:
            connection.run(
                lambda admin: protocol.abort(admin, results, batch, prefix=prefix, task_attempt=task_attempt)
            )


def _write_once(
    rows: RowWriter,
    iterator: Iterator[pa.RecordBatch],
    task_attempt: TaskAttempt,
    *,
    is_two_phase: bool = True,
) -> TaskMessage:
    """A task's part of a batch, unless it was decided before."""
    _freeze_garbage()
    with connection_of(rows.settings) as connection:
        assignment = connection.assign(task_attempt, prefix=rows.prefix)
        if assignment.is_written:
            count = sum(batch.num_rows for batch in rows.transformed(iterator))
            return TaskMessage(assignment.result(None, count), count)
        transaction, count = rows.write_transaction(
            iterator, task_attempt.transactional_id(rows.prefix), connection, is_two_phase=is_two_phase
        )
        result = connection.run(lambda admin: protocol.hand_over(admin, assignment, transaction, count))
        return TaskMessage(result, count)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "write() runs in a task"
    return context


def _task_attempt(context: TaskContext) -> TaskAttempt:
    job = stream_job(context)
    for name, value in job._asdict().items():
        if value is None:
            raise SparkError(
                f"Spark gave this task no {name}, which exactly-once writes need; set the option guarantee to"
                f" {AT_LEAST_ONCE}"
            )
    query, run, batch = map(str, job)
    return TaskAttempt(query, run, int(batch), context.partitionId(), context.attemptNumber())


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message.result for message in messages if isinstance(message, TaskMessage)]


def _row_count(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, TaskMessage))
