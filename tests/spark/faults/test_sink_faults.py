"""Faults of a stream's output, as its user sees them; `unit/spark/sink` simulates the others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery

from penstock import TopicPartition
from penstock.testing import Broker

OUT = TopicPartition("out", 0)
STARTS_MAX = 5  # on a busy machine a batch may take too long once more
PATIENCE_S = 120


@pytest.mark.penstock(
    settings={
        "transaction.max.timeout.ms": 10_000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "transaction.two.phase.commit.enable": False,
    }
)
def test_a_transaction_that_times_out_is_reported_and_written_again(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    admin = penstock.admin()
    admin.create_topic("orders", partitions=2)
    admin.create_topic("out", partitions=1)
    with penstock.producer() as producer:
        producer.send("orders", b"quick", partition=0)
        producer.send("orders", b"slow", partition=1)
    is_over = tmp_path / "over"

    @udf(returnType="string", useArrow=False)
    def take_time(value: str) -> str:
        end = time.monotonic() + PATIENCE_S
        while value == "slow" and not is_over.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return value

    def start() -> StreamingQuery:
        brokers = {"kafka.bootstrap.servers": penstock.bootstrap_servers}
        given = {"subscribe": "orders", "startingOffsets": "earliest", "valueFormat": "string"}
        stream = spark.readStream.format("penstock").options(**brokers, **given).load()
        rows = stream.select(take_time("value").alias("value"))
        writer = rows.writeStream.format("penstock").options(**brokers, topic="out")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    query = start()
    # One task wrote the fast row, and its transaction was aborted while the other task was at work.
    end = time.monotonic() + PATIENCE_S
    while admin.list_offsets({OUT: "latest"}, read_committed=True)[OUT].offset < 2:
        assert time.monotonic() < end, "no transaction was aborted"
    is_over.touch()
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(PATIENCE_S)
    message = str(failed.value)
    assert (
        "were aborted before they could be committed, because they were open for longer than the broker"
        in message
    )
    assert "Start the query again: it writes their rows again" in message
    assert "transaction.max.timeout.ms" in message

    for starts_left in reversed(range(STARTS_MAX)):
        try:
            start().awaitTermination(PATIENCE_S)
            break
        except StreamingQueryException:
            assert starts_left, "the query never came through"
    with penstock.consumer("out", isolation_level="read_committed") as consumer:
        assert sorted(each.value for each in consumer.read(until="end").to_messages()) == [b"quick", b"slow"]
