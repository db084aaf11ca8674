"""Avro and Protobuf as column functions."""

from __future__ import annotations

import base64
import datetime
import decimal

import pytest
from google.protobuf import descriptor_pb2
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as spark_functions

from harness.registry import serve_registry
from penstock.spark.errors import BadOption
from penstock.spark.functions import from_avro, from_protobuf, to_avro

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}
ROWS = [
    (1, decimal.Decimal("1.25"), datetime.datetime(2024, 1, 1, 12), {"a": 1}),
    (2, decimal.Decimal("-7.00"), None, {}),
]


def test_avro_round_trip(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        ROWS, "id BIGINT, price DECIMAL(9,2), at TIMESTAMP, counts MAP<STRING, INT>"
    )
    whole = spark_functions.struct("*")
    with serve_registry() as registry:
        at = {"registry": registry.url, "subject": "orders-value"}
        written = frame.select(
            to_avro(whole, SCHEMA).alias("plain"), to_avro(whole, SCHEMA, **at).alias("registered")
        )
        kept = written.localCheckpoint()  # so that the schema is registered before it is requested

        back = kept.select(
            from_avro("plain", SCHEMA).alias("plain"),
            from_avro("registered", **at).alias("registered"),
            from_avro("plain", "string", poison="null").alias("wrong"),
        ).orderBy("plain.id").collect()  # fmt: skip

        assert [tuple(row.plain) for row in back] == [tuple(row.registered) for row in back] == ROWS
        assert [row.wrong for row in back] == [None, None]


def test_protobuf_is_decoded_and_other_bytes_fail_with_the_reason(spark: SparkSession) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    schema = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()
    frame = spark.createDataFrame([(b"\x08\x07",)], "value BINARY")

    assert frame.select(from_protobuf("value", schema).alias("order")).select("order.id").collect() == [(7,)]

    with pytest.raises(PySparkException, match=r"cannot decode a value: the bytes are not a shop\.Order"):
        frame.select(from_protobuf(spark_functions.lit(b"\xff"), schema)).collect()


def test_a_missing_schema_is_rejected_before_anything_runs() -> None:
    with pytest.raises(BadOption, match="needs a schema"):
        from_avro("value")
    with pytest.raises(BadOption, match="give the subject"):
        to_avro("value", SCHEMA, registry="http://localhost:8081")
    with pytest.raises(BadOption, match="not an Avro schema"):
        to_avro("value", {"type": "nonsense"})
    with pytest.raises(BadOption, match="fail or return null"):
        from_avro("value", "long", poison="drop")  # type: ignore[arg-type]
