"""What columns rows must have to become records, and what is made of them: as Spark's own Kafka connector has it.

`value` must be there, text or bytes; `key`, `headers`, `partition` and `topic` may be, and `timestamp`, which the
connector ignores. Other columns are left out. The option `topic` goes before the column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

from penstock.spark.errors import BadOption, SparkError


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
    """The columns that are written, in the order of `COLUMNS`; raises where they do not serve."""
    if "value" not in schema.names:
        raise BadRows(
            f"there is no column value, which every record needs; there are {', '.join(schema.names)}"
        )
    if topic is None and "topic" not in schema.names:
        raise BadOption("where do rows go? Set the option topic, or add a column topic")
    for column in COLUMNS:
        if column.name in schema.names:
            kind = schema[column.name].dataType
            if not column.is_right(kind):
                raise BadRows(
                    f"column {column.name} must be {column.wanted}, not {kind.simpleString()}: cast it or leave it out"
                )
    left_out = {"topic"} if topic is not None else set()
    return tuple(each.name for each in COLUMNS if each.name in schema.names and each.name not in left_out)


def records_of(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """The columns of records; raises for a row that has no topic."""
    records = batch.select(list(columns))
    if "topic" in columns and records.column("topic").null_count:
        raise BadRows("a row has no topic (null): give it one, or set the option topic for all of them")
    return records
