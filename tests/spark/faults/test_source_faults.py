"""Faults of a stream's input: losses are named with topic, partition and offset, and nothing is read twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery

from penstock import TopicPartition
from penstock.testing import Broker

ZERO = TopicPartition("orders", 0)
AWAY_S = 3  # how long a broker is unavailable to the query


class Pipeline:
    """A query over the topic `orders` that keeps the values it saw."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path, **given: str) -> None:
        self.seen: list[str] = []
        self.then: Any = None
        """A function of the user's, applied to each value."""
        self._checkpoint = str(folder / "checkpoint")
        self._stream = (
            spark.readStream.format("penstock")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .options(
                **{"subscribe": "orders", "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "10"}
            )
            .options(**{"columns": "value", "valueFormat": "string", **given})
            .load()
        )

    def start(self, **trigger: Any) -> StreamingQuery:
        def keep(batch: Any, _: int) -> None:
            self.seen.extend(row.value for row in batch.collect())

        stream = self._stream
        if self.then is not None:
            stream = stream.select(self.then("value").alias("value"))
        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", self._checkpoint)
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def run(self) -> list[str]:
        """Read everything available, and return what was seen now."""
        known = len(self.seen)
        query = self.start(availableNow=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return self.seen[known:]

    def failure_message_after(self, change: Callable[[], object]) -> str:
        """The error of a query that has read everything and runs on, when something changes."""
        query = self.start()
        try:
            query.processAllAvailable()
            change()
            with pytest.raises(StreamingQueryException) as failed:
                query.awaitTermination(120)
        finally:
            query.stop()
        return str(failed.value)

    def failure_message(self) -> str:
        with pytest.raises(StreamingQueryException) as failed:
            self.run()
        return str(failed.value)


def send(broker: Broker, *values: str) -> None:
    with broker.producer() as producer:
        for value in values:
            producer.send("orders", value.encode(), partition=0)


def test_records_deleted_by_retention_are_a_loss(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    strict = Pipeline(spark, penstock, tmp_path)
    assert strict.run() == ["a", "b"]
    send(penstock, "c", "d", "e")
    penstock.admin().delete_records({ZERO: 4})

    message = strict.failure_message()

    assert "orders-0" in message
    assert "offset 2" in message or "[2" in message
    assert "4" in message
    assert "failOnDataLoss=false" in message
    assert Pipeline(spark, penstock, tmp_path, failOnDataLoss="false").run() == ["e"]


def test_a_recreated_topic_is_another_topic(spark: SparkSession, penstock: Broker, tmp_path: Path) -> None:
    send(penstock, "a", "b")
    strict = Pipeline(spark, penstock, tmp_path)
    assert strict.run() == ["a", "b"]
    penstock.admin().delete_topic("orders")
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "x", "y", "z")

    message = strict.failure_message()

    assert "topic orders was deleted and recreated" in message
    assert "offset 2 of orders-0" in message
    assert Pipeline(spark, penstock, tmp_path, failOnDataLoss="false").run() == ["x", "y", "z"]


def test_a_batch_planned_for_a_topic_does_not_read_its_successor(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    strict = Pipeline(spark, penstock, tmp_path)
    assert strict.run() == ["a", "b"]
    # Batch 0 was planned but not finished when the query died, and the topic is recreated in between.
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    penstock.admin().delete_topic("orders")
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "x", "y", "z")

    message = strict.failure_message()

    assert "topic orders was deleted and recreated" in message
    assert strict.seen == ["a", "b"]
    assert Pipeline(spark, penstock, tmp_path, failOnDataLoss="false").run() == ["x", "y", "z"]


@pytest.mark.penstock(settings={"auto.create.topics.enable": False})
def test_a_topic_deleted_while_the_query_runs_is_named(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)

    message = pipeline.failure_message_after(lambda: penstock.admin().delete_topic("orders"))

    assert "topic orders was deleted; it was read up to offset 2 of orders-0" in message
    assert pipeline.seen == ["a", "b"]


def test_a_topic_recreated_while_the_query_runs_is_named(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)

    def make_anew() -> None:
        penstock.admin().delete_topic("orders")
        penstock.admin().create_topic("orders", partitions=1)
        send(penstock, "x", "y", "z")

    message = pipeline.failure_message_after(make_anew)

    # The driver may have looked while there was no topic, or a task may have seen it first.
    assert "topic orders was deleted and recreated" in message or "topic orders was deleted" in message
    assert "offset 2 of orders-0" in message or "offsets [2, 3) of orders-0" in message
    assert pipeline.seen == ["a", "b"]


def test_sparks_error_names_a_poison_record(spark: SparkSession, penstock: Broker, tmp_path: Path) -> None:
    send(penstock, '{"id": 1}', '{"id": "one"}')

    message = Pipeline(
        spark, penstock, tmp_path, valueFormat="json", valueSchema="id BIGINT"
    ).failure_message()

    assert "cannot decode the value at offset 1 of orders-0 (JsonDecoder)" in message
    assert "deadLetterTopic sends such records to another topic" in message


def test_sparks_error_names_the_offsets_of_a_batch_whose_function_raised(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "1", "two")
    pipeline = Pipeline(spark, penstock, tmp_path)
    pipeline.then = udf(lambda value: int(value), "int")

    message = pipeline.failure_message()

    assert "ValueError: invalid literal for int() with base 10: 'two'" in message
    assert '"orders": {"0": 2}' in message.partition("Current Available Offsets")[2]
    assert pipeline.seen == []
    pipeline.then = None
    assert pipeline.run() == ["1", "two"], "the batch is read again"


def test_the_query_waits_for_an_unavailable_broker(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)
    query = pipeline.start()
    try:
        query.processAllAvailable()
        penstock.kill()
        assert not query.awaitTermination(AWAY_S), "the query ended while the broker was away"
        penstock.start()
        send(penstock, "c")
        query.processAllAvailable()
        # Now during a task's read: responses are lost, and leaders seem to have moved.
        penstock.faults.drop_response("Fetch", times=2)
        penstock.faults.fail("Fetch", "NOT_LEADER", times=2)
        penstock.faults.drop_request("ListOffsets", times=1)
        send(penstock, "d", "e")
        query.processAllAvailable()
        assert query.isActive
    finally:
        query.stop()
    assert pipeline.seen == ["a", "b", "c", "d", "e"]
    assert pipeline.run() == []


def test_a_checkpoint_of_another_query_is_rejected(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    assert Pipeline(spark, penstock, tmp_path).run() == ["a", "b"]
    penstock.admin().create_topic("others", partitions=1)

    message = Pipeline(spark, penstock, tmp_path, subscribe="others").failure_message()

    assert "the checkpoint belongs to a query that read up to offset 2 of orders-0, which this" in message


def test_a_checkpoint_of_another_source_is_rejected(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)
    assert pipeline.run() == ["a", "b"]
    offsets = tmp_path / "checkpoint" / "offsets"
    lines = (offsets / "0").read_text().splitlines()
    (offsets / ".0.crc").unlink()
    (offsets / "0").write_text("\n".join([*lines[:2], json.dumps({"logOffset": 3})]))

    message = pipeline.failure_message()

    assert "the checkpoint has {'logOffset': 3} instead of topic offsets" in message
