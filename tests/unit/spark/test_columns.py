"""Columns have the names and types of Spark's Kafka connector."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.read import Columns, read_schema
from penstock.spark.columns import FIELDS, ArrowColumns, arrow_schema, chosen, of_schema
from penstock.spark.errors import BadOption

CONNECTOR = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)


def read(*headers: list[dict[str, object]], timestamps: list[int | None] | None = None) -> pa.RecordBatch:
    """A batch as the client reads it."""
    rows = len(headers)
    columns = {
        "topic": ["orders"] * rows,
        "partition": [3] * rows,
        "offset": list(range(7, 7 + rows)),
        "timestamp": timestamps or [1_000] * rows,
        "key": [None] * rows,
        "value": [b"v"] * rows,
        "headers": list(headers),
        "timestamp_type": [1] * rows,
    }
    schema = read_schema(Columns(timestamp_types=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in schema], schema=schema
    )


def test_names_types_order_and_nullability_are_the_connectors() -> None:
    assert FIELDS.simpleString() == CONNECTOR
    assert all(field.nullable for field in FIELDS)
    assert chosen(None, with_headers=True) == tuple(FIELDS.names)
    assert chosen(None, with_headers=False) == tuple(FIELDS.names[:-1])


def test_batches_have_the_schema_that_spark_expects() -> None:
    names = chosen(None, with_headers=True)

    batch = ArrowColumns(TopicPartition("orders", 3), names).of(read([]))

    assert batch.schema.equals(to_arrow_schema(FIELDS, timezone="UTC"))
    assert batch.schema.equals(arrow_schema(names))
    batch.validate(full=True)


def test_a_record_without_headers_or_timestamp_looks_as_in_the_connector() -> None:
    columns = ArrowColumns(
        TopicPartition("orders", 3), ("offset", "headers", "timestamp", "topic", "partition")
    )

    batch = columns.of(
        read([{"key": "a", "value": b"1"}, {"key": "b", "value": None}], [], timestamps=[5_000, None])
    )

    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
    ]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [5_000, -1_000]
    assert batch.column("topic").to_pylist() == ["orders", "orders"]
    assert batch.column("partition").to_pylist() == [3, 3]


def test_columns_are_chosen_in_any_case_and_order() -> None:
    assert chosen(["Value", "timestamptype", "value"], with_headers=False) == ("value", "timestampType")
    with pytest.raises(BadOption, match="unknown column price; the columns are key, value, topic"):
        chosen(["price"], with_headers=False)


def test_a_users_schema_selects_columns() -> None:
    assert of_schema(StructType([FIELDS["value"], FIELDS["offset"]])) == ("value", "offset")
    with pytest.raises(BadOption, match="has value as string; its type is binary"):
        of_schema(StructType([StructField("value", StringType())]))
