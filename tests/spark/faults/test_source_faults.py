"""What befalls a stream's input: losses are named with topic, partition and offset, and nothing comes twice."""

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
AWAY_S = 3  # how long a broker is away, and a query has to do without


class Pipeline:
    """A query over the topic `orders` that keeps the values that it saw."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path, **said: str) -> None:
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
            .options(**{"columns": "value", "valueFormat": "string", **said})
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
        """Read all that there is, and tell what was seen just now."""
        known = len(self.seen)
        query = self.start(availableNow=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return self.seen[known:]

    def words_of_failure_after(self, change: Callable[[], object]) -> str:
        """Of a query that has read all there is, and runs on, when something changes."""
        query = self.start()
        try:
            query.processAllAvailable()
            change()
            with pytest.raises(StreamingQueryException) as failed:
                query.awaitTermination(120)
        finally:
            query.stop()
        return str(failed.value)

    def words_of_failure(self) -> str:
        with pytest.raises(StreamingQueryException) as failed:
            self.run()
        return str(failed.value)


def send(broker: Broker, *values: str) -> None:
    with broker.producer() as producer:
        for value in values:
            producer.send("orders", value.encode(), partition=0)


def test_records_that_retention_removed_are_a_loss(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    strict = Pipeline(spark, penstock, tmp_path)
    assert strict.run() == ["a", "b"]
    send(penstock, "c", "d", "e")
    penstock.admin().delete_records({ZERO: 4})

    words = strict.words_of_failure()

    assert "orders-0" in words
    assert "offset 2" in words or "[2" in words
    assert "4" in words
    assert "failOnDataLoss=false" in words
    assert Pipeline(spark, penstock, tmp_path, failOnDataLoss="false").run() == ["e"]


def test_a_topic_that_was_made_anew_is_another_one(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    strict = Pipeline(spark, penstock, tmp_path)
    assert strict.run() == ["a", "b"]
    penstock.admin().delete_topic("orders")
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "x", "y", "z")

    words = strict.words_of_failure()

    assert "topic orders was deleted and made anew" in words
    assert "offset 2 of orders-0" in words
    assert Pipeline(spark, penstock, tmp_path, failOnDataLoss="false").run() == ["x", "y", "z"]


def test_a_batch_that_was_planned_for_a_topic_does_not_read_its_successor(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    strict = Pipeline(spark, penstock, tmp_path)
    assert strict.run() == ["a", "b"]
    # Batch 0 was planned but not finished when the query died, and the topic is made anew in between.
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    penstock.admin().delete_topic("orders")
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "x", "y", "z")

    words = strict.words_of_failure()

    assert "topic orders was deleted and made anew" in words
    assert strict.seen == ["a", "b"]
    assert Pipeline(spark, penstock, tmp_path, failOnDataLoss="false").run() == ["x", "y", "z"]


@pytest.mark.penstock(settings={"auto.create.topics.enable": False})
def test_a_topic_that_goes_away_in_mid_query_is_named(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)

    words = pipeline.words_of_failure_after(lambda: penstock.admin().delete_topic("orders"))

    assert "topic orders is gone; it was read up to offset 2 of orders-0" in words
    assert pipeline.seen == ["a", "b"]


def test_a_topic_that_is_made_anew_in_mid_query_is_named(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)

    def make_anew() -> None:
        penstock.admin().delete_topic("orders")
        penstock.admin().create_topic("orders", partitions=1)
        send(penstock, "x", "y", "z")

    words = pipeline.words_of_failure_after(make_anew)

    # The driver may have looked while there was none, or a task may have been the first to see it.
    assert "topic orders was deleted and made anew" in words or "topic orders is gone" in words
    assert "offset 2 of orders-0" in words or "offsets [2, 3) of orders-0" in words
    assert pipeline.seen == ["a", "b"]


def test_a_poison_record_is_named_in_what_spark_prints(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, '{"id": 1}', '{"id": "one"}')

    words = Pipeline(
        spark, penstock, tmp_path, valueFormat="json", valueSchema="id BIGINT"
    ).words_of_failure()

    assert "the value at offset 1 of orders-0 cannot be decoded (JsonDecoder)" in words
    assert "deadLetterTopic puts such records aside" in words


def test_a_function_that_raises_leaves_the_offsets_of_its_batch_in_what_spark_prints(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "1", "two")
    pipeline = Pipeline(spark, penstock, tmp_path)
    pipeline.then = udf(lambda value: int(value), "int")

    words = pipeline.words_of_failure()

    assert "ValueError: invalid literal for int() with base 10: 'two'" in words
    assert '"orders": {"0": 2}' in words.partition("Current Available Offsets")[2]
    assert pipeline.seen == []
    pipeline.then = None
    assert pipeline.run() == ["1", "two"], "the batch is read again"


def test_a_broker_that_is_away_for_a_while_is_waited_for(
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
        # Now in the midst of what a task reads: answers are lost, and leaders seem to have moved.
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


def test_a_checkpoint_of_another_query_is_refused(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    assert Pipeline(spark, penstock, tmp_path).run() == ["a", "b"]
    penstock.admin().create_topic("others", partitions=1)

    words = Pipeline(spark, penstock, tmp_path, subscribe="others").words_of_failure()

    assert "the checkpoint is of a query that read up to offset 2 of orders-0, and this one does not" in words


def test_a_checkpoint_of_another_source_is_refused(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    send(penstock, "a", "b")
    pipeline = Pipeline(spark, penstock, tmp_path)
    assert pipeline.run() == ["a", "b"]
    offsets = tmp_path / "checkpoint" / "offsets"
    lines = (offsets / "0").read_text().splitlines()
    (offsets / ".0.crc").unlink()
    (offsets / "0").write_text("\n".join([*lines[:2], json.dumps({"logOffset": 3})]))

    words = pipeline.words_of_failure()

    assert "the checkpoint tells of {'logOffset': 3}, which are no offsets of topics" in words
