"""Streams in update mode: what their batches write, and that a replay writes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock.spark
from penstock.testing.broker import Broker

pytestmark = pytest.mark.penstock(settings={"transaction.two.phase.commit.enable": "true"})


def fill(broker: Broker, *words: str) -> None:
    with broker.producer() as producer:
        for word in words:
            producer.send("words", word)


def committed(broker: Broker) -> list[tuple[str, str]]:
    with broker.consumer("counts", isolation_level="read_committed") as consumer:
        messages = consumer.read(until="end").to_messages()
        return [(message.key.decode(), message.value.decode()) for message in messages]


def count_words(spark: SparkSession, broker: Broker, checkpoint: Path) -> None:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    words = (
        spark.readStream.format("penstock")
        .options(subscribe="words", startingOffsets="earliest", **servers)
        .load()
    )
    counts = words.groupBy(F.col("value").alias("key")).count()
    rows = counts.select("key", F.col("count").cast("string").alias("value"))
    query = (
        rows.writeStream.outputMode("update")
        .foreachBatch(penstock.spark.to_topics({"topic": "counts", **servers}))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_changed_rows_are_written_and_a_replayed_batch_is_not_written_again(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    with penstock.admin() as admin:
        admin.create_topic("counts", partitions=1)
    checkpoint = tmp_path / "checkpoint"
    fill(penstock, "a", "b", "a")
    count_words(spark, penstock, checkpoint)
    assert sorted(committed(penstock)) == [("a", "2"), ("b", "1")]

    # As if the driver had died after the batch was written and before Spark recorded it.
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    fill(penstock, "a")
    count_words(spark, penstock, checkpoint)

    assert sorted(committed(penstock)) == [("a", "2"), ("a", "3"), ("b", "1")]
