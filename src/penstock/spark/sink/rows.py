"""Checks the columns of rows and turns them into records, as Spark's Kafka connector does.

The column `value` is required, as text or bytes. `key`, `headers`, `partition` and `topic` are optional, and so is
`timestamp`, which the connector ignores. Other columns are left out. The option `topic` overrides the column. A null
partition or timestamp means none: the key chooses the partition, and the timestamp is the time of writing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.client.errors import PenstockError
from penstock.spark.columns import NO_TIME_US
from penstock.spark.errors import BadOption, SparkError

SHOWN_MAX = 60  # characters of a key in a message


class BadRows(SparkError, ValueError):
    """Rows that cannot become records."""


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return [(each.name, type(each.dataType)) for each in fields] == [
        ("key", StringType),
        ("value", BinaryType),
    ]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    is_right: Callable[[DataType], bool]
    wanted: str


COLUMNS = (
    Column("topic", lambda kind: isinstance(kind, StringType), "string"),
    Column("key", _is_bytes, "string or binary"),
    Column("value", _is_bytes, "string or binary"),
    Column("headers", _is_headers, "array<struct<key:string,value:binary>>"),
    Column("partition", lambda kind: isinstance(kind, IntegerType), "int"),
    Column("timestamp", lambda kind: isinstance(kind, TimestampType), "timestamp"),
)


def check_schema(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns to write, in the order of `COLUMNS`; raises if they cannot be written."""
    if "value" not in schema.names:
        raise BadRows(f"the column value is missing; the columns are {', '.join(schema.names)}")
    if topic is None and "topic" not in schema.names:
        raise BadOption("the topic is missing: set the option topic, or add a column topic")
    for column in COLUMNS:
        if column.name in schema.names:
            kind = schema[column.name].dataType
            if not column.is_right(kind):
                raise BadRows(
                    f"column {column.name} must be {column.wanted}, not {kind.simpleString()}: cast it or drop it"
                )
    left_out = {"topic"} if topic is not None else set()
    return tuple(each.name for each in COLUMNS if each.name in schema.names and each.name not in left_out)


def records_of(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """The columns of records; raises for a row without a topic."""
    records = batch.select(list(columns))
    if "topic" in columns and records.column("topic").null_count:
        raise BadRows("a row has a null topic: fill the column, or set the option topic for all rows")
    if "timestamp" in columns:
        index = columns.index("timestamp")
        records = records.set_column(index, "timestamp", _times(records.column(index)))
    return records


def _times(column: pa.Array) -> pa.Array:
    """Null for records without a timestamp, for which the source has Kafka's -1 ms."""
    data = column.buffers()[1]
    # Spark passes microseconds, in the session's time zone.
    if data is None or not pa.types.is_timestamp(column.type) or column.type.unit != "us":
        return column
    values = numpy.frombuffer(data, numpy.int64)[column.offset : column.offset + len(column)]
    has_none = values == NO_TIME_US
    if not has_none.any():
        return column
    return pa.array(values, pa.int64(), mask=has_none | column.is_null().to_numpy(zero_copy_only=False)).cast(
        column.type
    )


def rejected_row(error: PenstockError, records: pa.RecordBatch, topic: str | None) -> BadRows | None:
    """The error for a row that a producer rejects; None if the error is about something else."""
    found = re.fullmatch(r"row (\d+)", str(error.about))
    if found is None:
        return None
    row = records.slice(int(found[1]), 1)
    details = [] if topic is None else [f"topic {topic}"]
    names = [name for name in ("topic", "partition", "key", "timestamp") if name in records.schema.names]
    details += [f"{name} {_shown(row.column(name))}" for name in names]
    reason = str(error).removeprefix(f"{error.about}: ")
    about = f" ({', '.join(details)})" if details else ""
    return BadRows(f"a row{about} cannot be written: {reason}")


def _shown(column: pa.Array) -> str:
    value = column[0].as_py()
    text = str(value) if isinstance(value, datetime.datetime) else repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
