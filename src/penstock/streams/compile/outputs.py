"""Output records: Arrow batches with the columns of the sink, which pass through Spark as binary cells.

Spark does not need to see records that a topology writes. A cell holds a whole batch, so the JVM moves cells instead
of rows, and the sink's task unpacks them (`unpacked`, the sink's `penstock.transform`).

The output of a task to a topic is in the order of the records that caused it (`ordering`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.spark.pipelines.figures import OBSERVED, OBSERVED_RECORDS
from penstock.streams.compile.columns import Column, Columns, Rows, as_list
from penstock.streams.compile.cut import Crossing
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.ordering import Cause, Part, in_order
from penstock.streams.functions import Function
from penstock.streams.nouns import Headers
from penstock.streams.serdes import Serde, natural_bytes
from penstock.streams.topic_names import checked_topic
from penstock.streams.topology import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = pyarrow.list_(
    pyarrow.field("element", pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
)
SCHEMA = pyarrow.schema(
    [
        ("topic", pyarrow.string()),
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("headers", HEADERS),
        ("timestamp", pyarrow.timestamp("us", tz="UTC")),
        ("partition", pyarrow.int32()),
    ]
)

COUNT_BYTES = 8

PartitionCount = Callable[[str], int]


class Output:
    """The output of one task."""

    tells_causes = False
    """Whether the causes of single records are needed in addition to their order."""

    def __init__(self, partition_count: PartitionCount) -> None:
        self._partition_count = partition_count
        self._parts: list[Part] = []
        self._rows: list[tuple[Cause, str, bytes | None, bytes | None, Headers, int, int | None]] = []

    def add(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        time_ms: int,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        self._rows.append((self._cause(), topic, key, value, headers, time_ms, partition))

    def _cause(self) -> Cause:
        """The cause of the record that is added next."""
        return ()

    def add_columns(
        self,
        topic: str | Sequence[str],
        keys: pyarrow.Array,
        values: pyarrow.Array,
        times: Any,
        headers: Sequence[Headers] | None = None,
        partitions: Sequence[int] | None = None,
        order: Sequence[Rows] = (),
    ) -> None:
        """Add columns of bytes; `times` in ms. `order` holds the cause of each record."""
        self._close_rows()
        count = len(keys)
        topics = (
            pyarrow.repeat(topic, count) if isinstance(topic, str) else pyarrow.array(topic, pyarrow.string())
        )
        batch = pyarrow.RecordBatch.from_arrays(
            [topics, keys, values, _headers(headers, count), _times(times), _partitions(partitions, count)],
            schema=SCHEMA,
        )
        self._parts.append(Part(topic if isinstance(topic, str) else None, batch, tuple(order)))

    def add_sink(self, node: Sink, records: Columns) -> None:
        """Add what a sink writes for these records."""
        keys = encoded(node.key, records.keys, node.name)
        values = encoded(node.value, records.values, node.name)
        topics: str | list[str]
        partitions: list[int] | None = None
        if isinstance(node.topic, str):
            topics = node.topic
        else:
            topics = [
                sink_topic(node, key, value)
                for key, value in zip(as_list(records.keys), as_list(records.values), strict=True)
            ]
        if node.partition is not None:
            partitions = self._partitions_of(node.partition, node.name, topics, records)
        order = (records.rows, *records.steps)
        self.add_columns(topics, keys, values, records.times, records.headers, partitions, order)

    def add_crossing(self, crossing: Crossing, topic: str, records: Columns) -> None:
        """Add what another stage reads of these records."""
        node = crossing.parent
        keys = encoded(node.key, records.keys, node.name)
        values = encoded(node.value, records.values, node.name)
        partitions: list[int] | None = None
        if crossing.partition is not None:
            partitions = self._partitions_of(crossing.partition, node.name, topic, records)
        order = (records.rows, *records.steps)
        self.add_columns(topic, keys, values, records.times, records.headers, partitions, order)

    def add_sink_record(self, node: Sink, key: Any, value: Any, time_ms: int, headers: Headers) -> None:
        """The same for one record."""
        topic = node.topic if isinstance(node.topic, str) else sink_topic(node, key, value)
        partition = self.partition_of(node.partition, node.name, topic, key, value)
        self.add(
            topic,
            encoded_one(node.key, key, node.name),
            encoded_one(node.value, value, node.name),
            time_ms,
            headers,
            partition,
        )

    def partition_of(
        self, function: Function | None, operator: str, topic: str, key: Any, value: Any
    ) -> int | None:
        """The partition chosen by the user's function; None uses the key's bytes."""
        if function is None:
            return None
        try:
            count = self._partition_count(topic)
            partition = int(function(key, value, count))
            if not 0 <= partition < count:
                raise ValueError(f"{topic} has {count} partitions, so partition {partition} does not exist")
            return partition
        except Exception as error:
            raise OperatorFailed(operator, error) from error

    def _partitions_of(
        self, function: Function, operator: str, topics: str | list[str], records: Columns
    ) -> list[int]:
        pairs = zip(as_list(records.keys), as_list(records.values), strict=True)
        chosen = (
            self.partition_of(
                function, operator, topics if isinstance(topics, str) else topics[at], key, value
            )
            for at, (key, value) in enumerate(pairs)
        )
        return [partition for partition in chosen if partition is not None]

    def taken(self) -> list[pyarrow.RecordBatch]:
        """Take everything added since the last call, for each topic in the order of causes."""
        return [part.batch for part in self.taken_parts()]

    def taken_parts(self) -> list[Part]:
        self._close_rows()
        parts, self._parts = self._parts, []
        return in_order(parts)

    def _close_rows(self) -> None:
        if not self._rows:
            return
        self._rows.sort(key=itemgetter(0))  # runs that are in order already, which is fast
        causes, topics, keys, values, headers, times, partitions = zip(*self._rows, strict=True)
        self._rows = []
        batch = pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.array(topics, pyarrow.string()),
                pyarrow.array(keys, pyarrow.binary()),
                pyarrow.array(values, pyarrow.binary()),
                _headers(headers, len(topics)),
                _times(numpy.array(times, numpy.int64)),
                pyarrow.array(partitions, pyarrow.int32()),
            ],
            schema=SCHEMA,
        )
        topic = topics[0] if len(set(topics)) == 1 else None
        order = tuple(numpy.array(causes, numpy.int64).T) if self.tells_causes else ()
        self._parts.append(Part(topic, batch, order))


def sink_topic(node: Sink, key: Any, value: Any) -> str:
    assert not isinstance(node.topic, str)
    try:
        return checked_topic(node.topic(key, value))
    except Exception as error:
        raise OperatorFailed(node.name, error) from error


def encoded(serde: Serde[Any] | None, column: Column, operator: str) -> pyarrow.Array:
    """Serialize a column; by Python type if no type was declared."""
    try:
        if serde is not None:
            return serde.encode_column(column)
        if not isinstance(column, list) and (
            pyarrow.types.is_binary(column.type) or pyarrow.types.is_string(column.type)
        ):
            return column.cast(pyarrow.binary())
        return pyarrow.array([natural_bytes(value) for value in as_list(column)], pyarrow.binary())
    except OperatorFailed:
        raise
    except Exception as error:
        raise OperatorFailed(operator, error) from error


def encoded_one(serde: Serde[Any] | None, value: Any, operator: str) -> bytes | None:
    try:
        return natural_bytes(value) if serde is None else serde.encode(value)
    except Exception as error:
        raise OperatorFailed(operator, error) from error


def cell_of(batches: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema = SCHEMA) -> bytes:
    """Pack batches into one cell. The number of records follows, where Spark reads it (`counted`)."""
    sink = pyarrow.BufferOutputStream()
    count = 0
    with pyarrow.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    sink.write(count.to_bytes(COUNT_BYTES, "big"))  # a reader of batches stops before it
    data: bytes = sink.getvalue().to_pybytes()
    return data


def counted(cells: DataFrame) -> DataFrame:
    """Cells of output. The query's progress reports their number of records: to Spark a cell is one row."""
    from pyspark.sql import functions as F

    count = F.conv(F.hex(F.substring("cell", -COUNT_BYTES, COUNT_BYTES)), 16, 10).cast("bigint")
    return cells.observe(OBSERVED, F.coalesce(F.sum(count), F.lit(0)).alias(OBSERVED_RECORDS))


def batches_of(cell: bytes) -> Iterator[pyarrow.RecordBatch]:
    with pyarrow.ipc.open_stream(cell) as reader:
        yield from reader


def unpacked(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Unpack cells into rows: runs in the sink's tasks."""
    for batch in batches:
        for cell in batch.column("cell"):
            yield from batches_of(cell.as_buffer())


def _headers(headers: Sequence[Headers] | None, count: int) -> pyarrow.Array:
    if headers is None or not any(headers):
        return pyarrow.nulls(count, HEADERS)
    rows = [[{"key": name, "value": value} for name, value in found] if found else None for found in headers]
    return pyarrow.array(rows, HEADERS)


def _times(times_ms: Any) -> pyarrow.Array:
    return pyarrow.array(numpy.asarray(times_ms, numpy.int64) * 1000).cast(pyarrow.timestamp("us", tz="UTC"))


def _partitions(partitions: Sequence[int] | None, count: int) -> pyarrow.Array:
    if partitions is None:
        return pyarrow.nulls(count, pyarrow.int32())
    return pyarrow.array(partitions, pyarrow.int32())
