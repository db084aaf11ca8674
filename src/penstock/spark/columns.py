"""The columns that the source gives: names, types and order of Spark's own Kafka connector, as Spark and as Arrow.

`ArrowColumns` makes a batch in Spark's schema of one that the client read. Nothing is done for a row: columns that are
the same in all rows are made once and sliced, the others are taken as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import BadOption

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

FIELDS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
    ]
)

# As Arrow has them where Spark expects them; the names inside of a list are those that Spark gives.
ARROW_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(
        pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    ),
}

NO_TIME_US = -1000  # what Kafka tells of a record without a time: one millisecond before 1970


def chosen(names: Collection[str] | None, *, with_headers: bool) -> tuple[str, ...]:
    """Those that were asked for, in that order; else all, headers only if they are wanted."""
    if names is None:
        return tuple(name for name in FIELDS.names if with_headers or name != "headers")
    known = {name.lower(): name for name in FIELDS.names}
    for name in names:
        if name.lower() not in known:
            raise BadOption(f"option columns: there is no column {name}; there are {', '.join(FIELDS.names)}")
    return tuple(dict.fromkeys(known[name.lower()] for name in names))


def of_schema(schema: StructType, fields: StructType = FIELDS) -> tuple[str, ...]:
    """The columns that a schema names, which may be the user's: some of ours, in any order, with our types."""
    for each in schema.fields:
        if each.name not in fields.names:
            raise BadOption(f"the schema has a column {each.name}; there are {', '.join(fields.names)}")
        if each.dataType != fields[each.name].dataType:
            ours = fields[each.name].dataType.simpleString()
            raise BadOption(f"the schema says {each.name} {each.dataType.simpleString()}; it is {ours}")
    return tuple(schema.names)


@cache
def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW_TYPES[name]) for name in names])


class ArrowColumns:
    """Makes batches of one partition, with these columns."""

    def __init__(self, partition: TopicPartition, names: tuple[str, ...]) -> None:
        self._names = names
        self._schema = arrow_schema(names)
        self._values = {
            "topic": pa.scalar(partition.topic),
            "partition": pa.scalar(partition.partition, pa.int32()),
        }
        self._same: dict[str, pa.Array] = {}

    def of(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """`read` is a whole batch of the client, and no slice of one."""
        columns = [self._column(name, read) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, read: pa.RecordBatch) -> pa.Array:
        if name in self._values:
            return self._same_in_all(name, read.num_rows)
        if name == "timestampType":
            return read.column("timestamp_type")
        column = read.column(name)
        if name == "headers":
            return _headers(column)
        if name == "timestamp" and column.null_count:
            return column.fill_null(pa.scalar(NO_TIME_US, column.type))
        return column

    def _same_in_all(self, name: str, rows: int) -> pa.Array:
        same = self._same.get(name)
        if same is None or len(same) < rows:
            same = self._same[name] = pa.repeat(self._values[name], rows)
        return same.slice(0, rows)


def _headers(column: pa.ListArray) -> pa.ListArray:
    """Null where a record has none, as the connector tells it."""
    import pyarrow.compute as pc  # takes as long to load as all the rest

    kind = ARROW_TYPES["headers"]
    pairs = pa.StructArray.from_arrays(column.values.flatten(), fields=list(kind.value_type))
    has_none = pc.equal(pc.list_value_length(column), 0)
    return pa.ListArray.from_arrays(column.offsets, pairs, type=kind, mask=has_none)
