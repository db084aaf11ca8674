"""Batches and streams of topics, as a query sees them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from harness.waiting import wait_until
from penstock import TopicPartition
from penstock.spark import register, transforms
from penstock.spark.settings import RUNTIME
from penstock.testing import Broker

ROWS = 300
HOUR_AGO_MS = int(time.time() * 1000) - 3_600_000


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """Topic `orders` with three partitions of a hundred records, one per second; every third record has headers."""
    with Broker() as broker:
        with broker.admin() as admin:
            admin.create_topic("orders", partitions=3)
        with broker.producer() as producer:
            for index in range(ROWS):
                producer.send(
                    "orders",
                    b"value %d" % index if index % 10 else None,
                    key=b"%d" % index,
                    partition=index % 3,
                    headers=[("a", b"1"), ("b", None)] if index % 3 == 0 else None,
                    timestamp_ms=HOUR_AGO_MS + index * 1000,
                )
        yield broker


def read(spark: SparkSession, broker: Broker, **said: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders", **said}
    given = {name: value for name, value in given.items() if value is not None}
    return spark.read.format("penstock").options(**given).load()


def stream(spark: SparkSession, broker: Broker, **said: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest", **said}
    return spark.readStream.format("penstock").options(**given).load()


def test_rows_have_the_sent_records(spark: SparkSession, filled: Broker) -> None:
    rows = read(spark, filled, includeHeaders=True).orderBy("timestamp").collect()

    assert len(rows) == ROWS
    for index, row in enumerate(rows):
        assert row.topic == "orders"
        assert (row.partition, row.offset) == (index % 3, index // 3)
        assert bytes(row.key) == b"%d" % index
        assert row.value is None if index % 10 == 0 else bytes(row.value) == b"value %d" % index
        assert round(row.timestamp.timestamp() * 1000) == HOUR_AGO_MS + index * 1000
        assert row.timestampType == 0
        assert (
            row.headers is None
            if index % 3
            else [tuple(each) for each in row.headers] == [("a", b"1"), ("b", None)]
        )


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ({"subscribe": None, "assign": '{"orders": [1]}', "startingOffsets": '{"orders": {"1": 90}}'}, 10),
        ({"subscribe": None, "subscribePattern": "ord.*", "startingTimestamp": HOUR_AGO_MS + 200_000}, 100),
        ({"endingOffsets": '{"orders": {"0": 5, "1": 10, "2": -1}}', "minPartitions": 7}, 115),
    ],
)
def test_parts_of_topics(spark: SparkSession, filled: Broker, said: dict[str, Any], count: int) -> None:
    assert read(spark, filled, columns="offset", **said).count() == count


def test_filters_are_pushed_down_if_spark_allows_it(spark: SparkSession, filled: Broker) -> None:
    wanted = "partition in (0, 2) and offset >= 10 and offset < 20"
    younger = f"timestamp >= timestamp_millis({HOUR_AGO_MS + 250_000})"
    telling = register(spark.newSession())
    telling.conf.set("spark.sql.python.filterPushdown.enabled", "true")

    assert read(telling, filled, filterPushdown="true").where(wanted).count() == 20
    assert read(telling, filled, filterPushdown="true").where(younger).count() == 50
    narrowed = read(telling, filled, filterPushdown="true").where(wanted)
    plan = narrowed._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan
    assert read(spark, filled).where(wanted).count() == 20


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_a_dataframe_used_twice_with_different_filters_has_all_rows(
    spark: SparkSession, filled: Broker, pushdown: str
) -> None:
    """With Spark's setting on, the second use had the rows of the first filter only."""
    usual = register(spark.newSession())
    for name, value in RUNTIME.items():
        usual.conf.set(name, value)
    usual.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    rows = read(usual, filled)

    one, others = rows.where("partition = 0"), rows.where("partition > 0")

    assert [each.count() for each in (one, others, rows, one.union(others))] == [100, 200, 300, 300]


def test_a_function_runs_in_the_reading_task(spark: SparkSession, filled: Broker) -> None:
    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows], "last": [pc.max(batch["offset"]).as_py()]})

    given = {"kafka.bootstrap.servers": filled.bootstrap_servers, "subscribe": "orders", "columns": "offset"}
    reader = spark.read.format("penstock").options(**given).option(transforms.OPTION, transforms.pack(fold))

    assert [tuple(row) for row in reader.schema("rows bigint, last bigint").load().collect()] == [
        (100, 99)
    ] * 3


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"subscribe": "nothing"}, "not found: topic nothing"),
        ({"subscribe": None, "assign": '{"orders": [0, 9]}'}, "not found: partition orders-9"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.auto.offset.reset": "latest"}, "set startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": 1}}'}, "has no value for orders-1, orders-2"),
        ({"assign": '{"orders": [0]}'}, "given: subscribe and assign"),
    ],
)
def test_bad_options_are_rejected_before_anything_runs(
    spark: SparkSession, filled: Broker, said: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=re.escape(message)):
        read(spark, filled, **said).count()


def test_a_stream_reads_limited_batches_and_commits_the_last_one_to_its_group(
    spark: SparkSession, filled: Broker, tmp_path: Path
) -> None:
    rows = stream(spark, filled, subscribe="orders", maxOffsetsPerTrigger=120, groupId="watched")

    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert [progress.numInputRows for progress in query.recentProgress] == [120, 120, 60]
    reported = query.recentProgress[0].sources[0]
    assert json.loads(reported.endOffset)["orders"] == {"0": 40, "1": 40, "2": 40}
    assert json.loads(reported.latestOffset)["orders"] == {"0": 100, "1": 100, "2": 100}
    with filled.admin() as admin:
        committed = admin.list_group_offsets("watched")
    assert {partition.partition: at.offset for partition, at in committed.items()} == {0: 100, 1: 100, 2: 100}


def test_the_last_batch_is_committed_without_another_batch(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    with penstock.producer() as producer:
        producer.send("orders", b"x")
    rows = stream(spark, penstock, subscribe="orders", groupId="hourly")
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="1 hour")
        .start()
    )
    try:
        with penstock.admin() as admin:

            def is_committed() -> bool:
                committed = admin.list_group_offsets("hourly").get(TopicPartition("orders", 0))
                return committed is not None and committed.offset == 1

            wait_until(is_committed, "its one batch is committed", seconds=60)
    finally:
        query.stop()


def test_new_partitions_and_topics_are_read_from_their_start(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    def send(topic: str, partition: int, *values: bytes) -> None:
        with penstock.producer() as producer:
            for value in values:
                producer.send(topic, value, partition=partition)

    seen: list[bytes] = []
    rows = stream(spark, penstock, subscribePattern="grow-.*", columns="value")

    def run() -> list[bytes]:
        seen.clear()
        writer = rows.writeStream.foreachBatch(
            lambda batch, _: seen.extend(bytes(row.value) for row in batch.collect())
        )
        writer.option("checkpointLocation", str(tmp_path)).trigger(
            availableNow=True
        ).start().awaitTermination()
        return sorted(seen)

    with penstock.admin() as admin:
        admin.create_topic("grow-a", partitions=1)
        send("grow-a", 0, b"a")
        assert run() == [b"a"]
        admin.create_partitions({"grow-a": 2})
        admin.create_topic("grow-b", partitions=1)
        send("grow-a", 1, b"b", b"c")
        send("grow-b", 0, b"d")
        assert run() == [b"b", b"c", b"d"]
        assert run() == []
