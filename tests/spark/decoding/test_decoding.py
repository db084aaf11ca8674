"""Values decoded by the source, in batches and streams; poison records and dead letters."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from harness.registry import RegistryInMemory, serve_registry
from penstock.client.serializers import AvroSerializer
from penstock.spark.decoding.ddl import data_type_of
from penstock.testing import Broker

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": ["null", "int"]}}},
    ],
}

Read = Callable[..., DataFrame]


def options(broker: Broker, topic: str = "orders", **given: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **given}


def send(broker: Broker, *values: bytes | None, topic: str = "orders", key: bytes | None = None) -> None:
    with broker.producer() as producer:
        for value in values:
            producer.send(topic, value, key=key, headers={"trace": b"1"}, partition=0)


def run(stream: DataFrame, checkpoint: Path) -> list[Any]:
    """The result of a query that reads everything available."""
    rows: list[Any] = []
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return rows


def letters(broker: Broker, topic: str = "dead") -> list[Any]:
    with broker.consumer(topic) as consumer:
        return list(consumer.read(until="end").to_messages())


def test_avro_arrives_in_sparks_types_with_fields_that_are_never_null(
    spark: SparkSession, penstock: Broker
) -> None:
    out = io.BytesIO()
    row = {"id": 7, "at": 1_700_000_000_123, "lines": [{"a": 1, "b": None}, {}]}
    fastavro.schemaless_writer(out, fastavro.parse_schema({**AVRO}), row)
    send(penstock, out.getvalue(), None, key=b"k")

    frame = spark.read.format("penstock").options(
        **options(penstock, valueFormat="avro", valueSchema=json.dumps(AVRO), keyFormat="string")
    ).load()  # fmt: skip

    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,at:timestamp,lines:array<map<string,int>>>"
    )
    reported = frame.selectExpr(
        "key", "value.id", "unix_millis(value.at) at", "value.lines", "offset"
    ).collect()
    assert [tuple(each) for each in reported] == [
        ("k", 7, 1_700_000_000_123, [{"a": 1, "b": None}, {}], 0),
        ("k", None, None, None, 1),
    ]


def test_a_poison_record_fails_the_query_and_is_named(spark: SparkSession, penstock: Broker) -> None:
    send(penstock, b'{"id": 1}', b'{"id": "two"}', b"{")

    with pytest.raises(PySparkException) as failed:
        spark.read.format("penstock").options(
            **options(penstock, valueFormat="json", valueSchema="id BIGINT")
        ).load().collect()  # fmt: skip

    assert "cannot decode the value at offset 1 of orders-0" in str(failed.value)
    assert "Expected `int | null`, got `str` - at `$.id`" in str(failed.value)
    assert "1 more" in str(failed.value)


def test_dead_letters_are_complete_and_sent_once(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, b'{"id": 1}', b"poison", b'{"id": 3}', key=b"k")
    given = options(
        penstock,
        valueFormat="json",
        valueSchema="id BIGINT",
        deadLetterTopic="dead",
        startingOffsets="earliest",
    )
    stream = spark.readStream.format("penstock").options(**given).load().select("value.id", "offset")

    first = run(stream, tmp_path / "checkpoint")
    # A query whose last commit was lost replays the batch.
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    again = run(stream, tmp_path / "checkpoint")

    assert [tuple(row) for row in first] == [tuple(row) for row in again] == [(1, 0), (3, 2)]
    (letter,) = letters(penstock)
    assert (letter.key, letter.value) == (b"k", b"poison")
    headers = dict(letter.headers)
    assert headers["trace"] == b"1"
    assert headers["__connect.errors.topic"] == b"orders"
    assert headers["__connect.errors.partition"] == b"0"
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert b"JSON is malformed" in headers["__connect.errors.exception.message"]
    assert headers["__connect.errors.exception.class.name"] == b"msgspec.DecodeError"
    assert headers["__penstock.errors.timestamp"] == str(letter.timestamp_ms).encode()
    assert len(headers["__connect.errors.connector.name"]) == 36


def test_poison_is_null_or_dropped_by_option(spark: SparkSession, penstock: Broker) -> None:
    send(penstock, b"ab", b"\xff", b"cd")

    def values(poison: str) -> list[Any]:
        given = options(penstock, valueFormat="string", poison=poison, columns="value")
        return [row.value for row in spark.read.format("penstock").options(**given).load().collect()]

    assert values("null") == ["ab", None, "cd"]
    assert values("drop") == ["ab", "cd"]


def test_values_of_a_changed_schema_are_resolved_to_the_querys(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    def write(registry: RegistryInMemory, fields: list[dict[str, Any]], value: dict[str, Any]) -> bytes:
        serializer = AvroSerializer(registry.url, {"type": "record", "name": "Order", "fields": fields})
        return serializer.for_topic("orders", is_key=False)(value)  # type: ignore[no-any-return]

    number, name = (
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    )
    with serve_registry() as registry:
        send(penstock, write(registry, [number, name], {"id": 1, "name": "a"}))
        stream = spark.readStream.format("penstock").options(
            **options(
                penstock,
                valueFormat="avro",
                schemaRegistryUrl=registry.url,
                startingOffsets="earliest",
                deadLetterTopic="dead",
            )
        ).load()  # fmt: skip
        more = {"name": "price", "type": "double"}
        send(penstock, write(registry, [{**number, "type": "int"}, more], {"id": 2, "price": 0.5}))
        send(penstock, write(registry, [{**number, "type": "string"}], {"id": "three"}))

        rows = run(stream.select("value.*"), tmp_path / "checkpoint")

    assert [tuple(row) for row in rows] == [(1, "a"), (2, None)]
    (letter,) = letters(penstock)
    message = dict(letter.headers)["__connect.errors.exception.message"].decode()
    assert "written with schema 3, read with the query's schema" in message


def test_a_user_may_give_the_schema_to_the_reader(spark: SparkSession, penstock: Broker) -> None:
    send(penstock, b'{"id": 1, "tags": ["a"]}')

    frame = (
        spark.read.format("penstock")
        .schema("value STRUCT<id: INT, tags: ARRAY<STRING>>, offset BIGINT")
        .options(**options(penstock, valueFormat="json"))
        .load()
    )

    assert [row.asDict(recursive=True) for row in frame.collect()] == [
        {"value": {"id": 1, "tags": ["a"]}, "offset": 0}
    ]


@pytest.mark.parametrize(
    "text",
    [
        "id BIGINT NOT NULL COMMENT 'the number', `a b` ARRAY<STRING>, c: STRUCT<x: INT, y: MAP<STRING, DECIMAL(5,2)>>",
        "d DECIMAL, e DEC(7), f NUMERIC(7,1), g TINYINT, h SMALLINT, i REAL, j TIMESTAMP_NTZ, k TIMESTAMP_LTZ",
        "array<array<int>>",
        "struct<a:int,b:struct<c:date>>",
    ],
)
def test_the_ddl_parser_agrees_with_sparks(spark: SparkSession, text: str) -> None:
    from pyspark.sql.types import _parse_datatype_string

    assert data_type_of(text) == _parse_datatype_string(text)
