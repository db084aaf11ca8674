"""The columns of the source: names, types and order of Spark's Kafka connector, in Spark's and in Arrow's types.

`ArrowColumns` turns a batch of the client into one with Spark's schema, without work per row: constant columns are
built once and sliced, the others are passed through.
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

# The Arrow types that Spark expects. Names inside lists are those that Spark gives.
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

NO_TIME_US = -1000  # Kafka's timestamp -1 for a record without a time, in microseconds


def chosen(names: Collection[str] | None, *, with_headers: bool) -> tuple[str, ...]:
    """The named columns in that order; by default all, with headers only if wanted."""
    if names is None:
        return tuple(name for name in FIELDS.names if with_headers or name != "headers")
    known = {name.lower(): name for name in FIELDS.names}
    for name in names:
        if name.lower() not in known:
            raise BadOption(
                f"option columns: unknown column {name}; the columns are {', '.join(FIELDS.names)}"
            )
    return tuple(dict.fromkeys(known[name.lower()] for name in names))


def of_schema(schema: StructType, fields: StructType = FIELDS) -> tuple[str, ...]:
    """The columns that a schema names. A user's schema may choose some of ours, in any order, with our types."""
    for each in schema.fields:
        if each.name not in fields.names:
            raise BadOption(
                f"the schema has an unknown column {each.name}; the columns are {', '.join(fields.names)}"
            )
        if each.dataType != fields[each.name].dataType:
            ours = fields[each.name].dataType.simpleString()
            raise BadOption(
                f"the schema has {each.name} as {each.dataType.simpleString()}; its type is {ours}"
            )
    return tuple(schema.names)


@cache
def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW_TYPES[name]) for name in names])


class ArrowColumns:
    """Builds batches of one partition with these columns."""

    def __init__(self, partition: TopicPartition, names: tuple[str, ...]) -> None:
        self._names = names
        self._schema = arrow_schema(names)
        self._values = {
            "topic": pa.scalar(partition.topic),
            "partition": pa.scalar(partition.partition, pa.int32()),
        }
        self._constants: dict[str, pa.Array] = {}

    def of(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """`read` is a whole batch of the client, not a slice."""
        columns = [self._column(name, read) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, read: pa.RecordBatch) -> pa.Array:
        if name in self._values:
            return self._constant(name, read.num_rows)
        if name == "timestampType":
            return read.column("timestamp_type")
        column = read.column(name)
        if name == "headers":
            return _headers(column)
        if name == "timestamp" and column.null_count:
            return column.fill_null(pa.scalar(NO_TIME_US, column.type))
        return column

    def _constant(self, name: str, rows: int) -> pa.Array:
        constant = self._constants.get(name)
        if constant is None or len(constant) < rows:
            constant = self._constants[name] = pa.repeat(self._values[name], rows)
        return constant.slice(0, rows)


def _headers(column: pa.ListArray) -> pa.ListArray:
    """Null for a record without headers, as in Spark's connector."""
    import pyarrow.compute as pc  # loading it takes as long as everything else

    kind = ARROW_TYPES["headers"]
    pairs = pa.StructArray.from_arrays(column.values.flatten(), fields=list(kind.value_type))
    has_none = pc.equal(pc.list_value_length(column), 0)
    return pa.ListArray.from_arrays(column.offsets, pairs, type=kind, mask=has_none)
