"""The columns that rows must have, and the writer of each guarantee; without a session."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.client.errors import BadArgument
from penstock.spark.errors import BadOption
from penstock.spark.options import Options, Use
from penstock.spark.sink.rows import BadRows, check_schema, records_of, rejected_row
from penstock.spark.sink.writer import (
    BatchWriter,
    ExactlyOnceWriter,
    StreamWriter,
    TransactionalBatchWriter,
    batch_writer,
    stream_writer,
)

PAIR = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


VALUES = schema(value=BinaryType())


def test_all_columns_of_a_record_are_written_and_others_left_out() -> None:
    given = schema(
        offset=LongType(),
        timestamp=TimestampType(),
        value=StringType(),
        key=BinaryType(),
        headers=ArrayType(PAIR),
        partition=IntegerType(),
        topic=StringType(),
    )

    assert check_schema(given, None) == ("topic", "key", "value", "headers", "partition", "timestamp")


def test_the_option_topic_overrides_the_column() -> None:
    assert check_schema(schema(topic=StringType(), value=StringType()), "out") == ("value",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (schema(key=StringType()), "the column value is missing"),
        (schema(value=LongType()), "value must be string or binary, not bigint"),
        (schema(value=StringType(), key=IntegerType()), "key must be string or binary, not int"),
        (schema(value=StringType(), headers=ArrayType(StringType())), "headers must be array"),
        (schema(value=StringType(), headers=StringType()), "headers must be array"),
        (schema(value=StringType(), partition=LongType()), "partition must be int, not bigint"),
        (schema(value=StringType(), timestamp=TimestampNTZType()), "timestamp must be timestamp"),
        (schema(value=StringType(), topic=BinaryType()), "topic must be string, not binary"),
    ],
)
def test_columns_that_cannot_be_written_are_rejected(given: StructType, message: str) -> None:
    with pytest.raises(BadRows, match=message):
        check_schema(given, "out")


def test_rows_without_a_topic_are_rejected() -> None:
    with pytest.raises(BadOption, match="option topic"):
        check_schema(VALUES, None)
    batch = pa.RecordBatch.from_pydict({"value": [b"1", b"2"], "topic": ["a", None]})
    with pytest.raises(BadRows, match="null topic"):
        records_of(batch, ("topic", "value"))


def test_the_sources_timestamp_of_records_without_one_is_written_as_none() -> None:
    """It was rejected, as one before 1970, when a topic was copied with its timestamps."""
    time = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    none = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC)
    kind = pa.timestamp("us", tz="Etc/UTC")  # in the session's time zone
    values = pa.array([b"0", b"1", b"2", b"3"])
    whole = pa.RecordBatch.from_arrays(
        [values, pa.array([none, time, None, none], kind)], ["value", "timestamp"]
    )

    assert records_of(whole, ("value", "timestamp")).column("timestamp").to_pylist() == [
        None,
        time,
        None,
        None,
    ]
    assert records_of(whole.slice(1, 2), ("value", "timestamp")).column("timestamp").to_pylist() == [
        time,
        None,
    ]
    assert records_of(whole.slice(4), ("value", "timestamp")).num_rows == 0
    nulls = pa.RecordBatch.from_arrays([values, pa.nulls(4, kind)], ["value", "timestamp"])
    assert records_of(nulls, ("value", "timestamp")).column("timestamp").to_pylist() == [None] * 4


def test_a_rejected_row_is_identified() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"key": [b"a", b"b" * 100], "value": [b"1", b"2"], "partition": pa.array([0, 9], pa.int32())}
    )

    error = rejected_row(BadArgument("its topic has no such partition", about="row 1"), batch, "out")

    assert str(error) == (
        f"a row (topic out, partition 9, key b'{'b' * 58}...) cannot be written:"
        " its topic has no such partition"
    )
    assert rejected_row(BadArgument("there are two columns key"), batch, "out") is None


@pytest.mark.parametrize(
    ("guarantee", "of_batches", "of_streams"),
    [
        (None, BatchWriter, ExactlyOnceWriter),
        ("exactly-once", TransactionalBatchWriter, ExactlyOnceWriter),
        ("at-least-once", BatchWriter, StreamWriter),
    ],
)
def test_every_guarantee_has_its_writer(guarantee: str | None, of_batches: type, of_streams: type) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}
    if guarantee is not None:
        given["guarantee"] = guarantee

    assert type(batch_writer(Options.read(given, Use.BATCH_WRITE), VALUES, False)) is of_batches
    assert type(stream_writer(Options.read(given, Use.STREAM_WRITE), VALUES, True)) is of_streams


def test_a_topic_cannot_be_overwritten() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}

    with pytest.raises(BadOption, match="append"):
        batch_writer(Options.read(given, Use.BATCH_WRITE), VALUES, True)
