"""What Spark calls to write: a writer of batches and one of streams, each at least once or exactly once.

Spark pickles a writer to its tasks and commits on another object in another process, so a writer knows only what it was
made of; the rest travels in messages. Which query, run and batch a task works for stands in properties of Spark whose
names are internal: a test holds them.
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
from penstock.client.producer.prepared import PreparedTransaction
from penstock.client.producer.sync import Producer
from penstock.spark import clients, transforms
from penstock.spark.errors import BadOption, SparkError
from penstock.spark.options import Options
from penstock.spark.sink import AT_LEAST_ONCE, PREFIX, each_batch, protocol
from penstock.spark.sink.batch_write import BATCH, BatchWrite
from penstock.spark.sink.decision import Done, Place, check_same_write, has_finished_earlier
from penstock.spark.sink.each_batch import QUERY_ID, RUN_ID, StreamBatch
from penstock.spark.sink.messages import named
from penstock.spark.sink.rows import COLUMNS, check_schema, records_of, refused
from penstock.spark.sink.transactions import SinkConnection, connection_of, patient

logger = logging.getLogger("penstock.spark")

FREEZES = 3  # of a process: its first commit or task loads what making a writer did not

BATCH_ID = "streaming.sql.batchId"


def batch_writer(options: Options, schema: StructType, overwrite: bool) -> DataSourceWriter:
    if overwrite:
        raise BadOption("a topic is not overwritten: rows are only ever added; write with mode append")
    _spare_collector()
    rows = RowWriter.of(options, schema)
    if options.is_set(each_batch.OPTION):
        return ReplayedBatchWriter(rows, StreamBatch.unpack(options.get(each_batch.OPTION)))
    if options.is_exactly_once(is_stream=False):
        return TransactionalBatchWriter(rows, BatchWrite.of(options.get("writeId")))
    return BatchWriter(rows)


def stream_writer(options: Options, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """Also where `overwrite` is set, as in output mode complete: the rows of every batch are added, as the connector
    does it."""
    _spare_collector()
    rows = RowWriter.of(options, schema)
    if options.is_exactly_once(is_stream=True):
        return ExactlyOnceWriter(rows)
    return StreamWriter(rows)


_uses = 0


def _spare_collector() -> None:
    """Spark makes a writer twice for every micro-batch and pickles it to tasks, in processes that it keeps, and has
    each of them collect garbage when it is done: 30 ms of processor time for the modules that are loaded, where the
    work of a micro-batch of 100 rows takes ten in all. What is there after the first uses will stay, and need not be
    looked at again."""
    global _uses
    _uses += 1
    if _uses <= FREEZES:
        gc.freeze()


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Rows into records: what all writers have in common."""

    settings: dict[str, str]
    topic: str | None
    columns: tuple[str, ...]
    prefix: str
    transform: str | None = None
    """What makes rows of what Spark has: the internal option `penstock.transform`."""

    @classmethod
    def of(cls, options: Options, schema: StructType) -> RowWriter:
        topic = options.get("topic")
        prefix = options.get("transactionalIdPrefix") or PREFIX
        if options.is_set(transforms.OPTION):
            columns = tuple(column.name for column in COLUMNS)
            return cls(options.settings, topic, columns, prefix, options.get(transforms.OPTION))
        return cls(options.settings, topic, check_schema(schema, topic), prefix)

    def taken(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows to be written."""
        return iterator if self.transform is None else transforms.unpack(self.transform)(iterator)

    def send(self, producer: Producer, batch: pa.RecordBatch) -> None:
        records = records_of(batch, self.columns)
        try:
            producer.send_arrow(records, topic=self.topic)
        except PenstockError as error:
            if (told := refused(error, records, self.topic)) is None:
                raise
            raise told from error

    def write(self, iterator: Iterator[pa.RecordBatch]) -> int:
        """At least once; how many rows there were."""
        _spare_collector()
        rows = 0
        with clients.producer(patient(self.settings)) as producer:
            for batch in self.taken(iterator):
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
        """Into a transaction that stays open for somebody else to end; none where there are no rows."""
        producer: Producer | None = None
        rows = 0
        try:
            for batch in self.taken(iterator):
                if batch.num_rows:
                    producer = producer or connection.begin(transactional_id, is_two_phase=is_two_phase)
                    self.send(producer, batch)
                    rows += batch.num_rows
            return None if producer is None else producer.prepare_transaction(), rows
        finally:
            if producer is not None:
                producer.close()  # which aborts what was not prepared


@dataclass
class RowsWritten(WriterCommitMessage):
    rows: int


@dataclass
class TaskDone(WriterCommitMessage):
    done: Done
    rows: int
    """How many rows the task was given, whether it wrote them or found them written."""


class BatchWriter(DataSourceArrowWriter):
    """At least once: what a task wrote before it failed stays, and is written again."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return RowsWritten(self._rows.write(iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """At least once: a batch that is replayed is written again."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return RowsWritten(self._rows.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is left to do."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What is written stays."""


class TransactionalBatchWriter(DataSourceArrowWriter):
    """All rows of a job, or none: a transaction for each task, and a durable decision before the first one is
    committed. See `protocol`, and `batch_write` for what identifies the write."""

    def __init__(self, rows: RowWriter, write: BatchWrite) -> None:
        self._rows = rows
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        place = self._write.place(partition=context.partitionId(), attempt=context.attemptNumber())
        return _write_once(self._rows, iterator, place, is_two_phase=self._write.is_named)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done, prefix = _done(messages), self._rows.prefix
        assert done, "Spark runs a task even if there are no rows"
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.commit(admin, done, BATCH, prefix=prefix))
        check_same_write(done, rows=_row_count(messages))
        if done[0].decided is None:
            return
        if has_finished_earlier(done):
            logger.warning(
                "an earlier job had not finished %s; this job has committed the rest", named(self._write.sink)
            )
        else:
            logger.warning("%s was committed before; nothing was written", named(self._write.sink))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        write, prefix = self._write, self._rows.prefix
        with connection_of(self._rows.settings) as connection:
            ledger = connection.run(
                lambda admin: protocol.abort_write(admin, write.sink, write.run, prefix=prefix)
            )
        decision = ledger.decision
        if decision is None:
            return
        was_decided_before = any(each.decided is not None for each in _done(messages))
        if decision.run == write.run and not was_decided_before:
            logger.warning("the job of %s failed, but its rows are committed", named(write.sink))
        else:
            logger.warning(
                "the job of %s failed; another job has committed this write, with %d rows",
                named(write.sink),
                decision.rows,
            )


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """All rows of a micro-batch, once, whatever is killed: see `protocol`."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write_once(self._rows, iterator, _place(_context()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        done = _done(messages)
        prefix = self._rows.prefix
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.commit(admin, done, batchId, prefix=prefix))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        done = _done(messages)
        prefix = self._rows.prefix
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.abort(admin, done, batchId, prefix=prefix))


class ReplayedBatchWriter(DataSourceArrowWriter):
    """A micro-batch of a stream that `each_batch` writes: the same as `ExactlyOnceWriter`, but that Spark takes it
    for a batch like any other and does not tell of what it is."""

    def __init__(self, rows: RowWriter, batch: StreamBatch) -> None:
        self._rows = rows
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        sink, run, batch = self._batch.sink, self._batch.run, self._batch.batch
        place = Place(sink, run, batch, context.partitionId(), context.attemptNumber())
        return _write_once(self._rows, iterator, place)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if done := _done(messages):  # a batch without partitions has nothing to decide
            prefix, batch = self._rows.prefix, self._batch.batch
            with connection_of(self._rows.settings) as connection:
                connection.run(lambda admin: protocol.commit(admin, done, batch, prefix=prefix))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done, prefix, batch = _done(messages), self._rows.prefix, self._batch.batch
        place = Place(self._batch.sink, self._batch.run, batch, 0)
        with connection_of(self._rows.settings) as connection:
            connection.run(lambda admin: protocol.abort(admin, done, batch, prefix=prefix, place=place))


def _write_once(
    rows: RowWriter, iterator: Iterator[pa.RecordBatch], place: Place, *, is_two_phase: bool = True
) -> TaskDone:
    """A task's part of a batch, unless it was decided before."""
    _spare_collector()
    with connection_of(rows.settings) as connection:
        assignment = connection.assign(place, prefix=rows.prefix)
        if assignment.is_written:
            count = sum(batch.num_rows for batch in rows.taken(iterator))
            return TaskDone(assignment.done(None, count), count)
        transaction, count = rows.write_transaction(
            iterator, place.transactional_id(rows.prefix), connection, is_two_phase=is_two_phase
        )
        done = connection.run(lambda admin: protocol.hand_over(admin, assignment, transaction, count))
        return TaskDone(done, count)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "write() runs in a task"
    return context


def _place(context: TaskContext) -> Place:
    found = {name: context.getLocalProperty(name) for name in (QUERY_ID, RUN_ID, BATCH_ID)}
    for name, value in found.items():
        if value is None:
            raise SparkError(
                f"this Spark does not tell tasks {name}, without which a batch cannot be written exactly once; set the"
                f" option guarantee to {AT_LEAST_ONCE}"
            )
    query, run, batch = map(str, found.values())
    return Place(query, run, int(batch), context.partitionId(), context.attemptNumber())


def _done(messages: Sequence[WriterCommitMessage | None]) -> list[Done]:
    return [message.done for message in messages if isinstance(message, TaskDone)]


def _row_count(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, TaskDone))
