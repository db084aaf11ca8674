"""Rows to topics: columns, guarantees, replays. One session, small data."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import Message
from penstock.spark.sink.decision import Decision, of_json
from penstock.spark.sink.decisions import TOPIC
from penstock.testing.broker import Broker

TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}


def committed(broker: Broker, topic: str = "out") -> list[Message]:
    with broker.consumer(topic, isolation_level="read_committed") as consumer:
        return list(consumer.read(until="end").to_messages())


def to(frame: DataFrame, broker: Broker, **options: str) -> None:
    writer = frame.write.format("penstock").mode("append")
    writer.options(**{"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "out", **options}).save()


def stream_to(frame: DataFrame, broker: Broker, checkpoint: Path, **options: str) -> DataStreamWriter:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "out", **options}
    writer = frame.writeStream.format("penstock").options(**given)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def source(spark: SparkSession, broker: Broker, topic: str = "in", **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
    return spark.readStream.format("penstock").options(startingOffsets="earliest", **given).load()


def fill(broker: Broker, count: int, *, start: int = 0, topic: str = "in") -> None:
    with broker.producer() as producer:
        for number in range(start, start + count):
            producer.send(topic, str(number), partition=number % 2)


def test_every_column_of_a_record_is_written(spark: SparkSession, penstock: Broker) -> None:
    penstock.admin().create_topic("out", partitions=3)
    time = datetime.datetime.now(datetime.UTC).replace(microsecond=123000)
    rows = spark.createDataFrame(
        [("k", "v", 2, time, [("trace", b"1"), ("none", None)]), (None, None, 1, time, None)],
        "key string, value string, partition int, timestamp timestamp,"
        " headers array<struct<key:string,value:binary>>",
    )

    to(rows, penstock)

    found = {(m.partition, m.key, m.value, m.timestamp_ms, tuple(m.headers)) for m in committed(penstock)}
    ms = round(time.timestamp() * 1000)
    assert found == {(2, b"k", b"v", ms, (("trace", b"1"), ("none", None))), (1, None, None, ms, ())}


def test_rows_go_to_the_topic_that_they_name(spark: SparkSession, penstock: Broker) -> None:
    rows = spark.createDataFrame([("one", b"1"), ("two", b"2")], "topic string, value binary")
    writer = rows.write.format("penstock").mode("append")

    writer.option("kafka.bootstrap.servers", penstock.bootstrap_servers).save()

    assert [m.value for m in committed(penstock, "one")] == [b"1"]
    assert [m.value for m in committed(penstock, "two")] == [b"2"]


def test_rows_of_the_source_are_copied_with_and_without_their_timestamps(
    spark: SparkSession, penstock: Broker
) -> None:
    penstock.admin().create_topic("out", partitions=2)
    rows = spark.createDataFrame(
        [("a", -0.001, None, None), ("b", 1.5, [("h", None)], 1), ("c", None, [], None)],
        "value string, time double, headers array<struct<key:string,value:binary>>, partition int",
    )

    to(
        rows.selectExpr("value", "timestamp_micros(bigint(time * 1e6)) as timestamp", "headers", "partition"),
        penstock,
    )

    found = {m.value: m for m in committed(penstock)}
    assert found[b"b"].timestamp_ms == 1500
    assert (found[b"b"].partition, tuple(found[b"b"].headers)) == (1, (("h", None),))
    an_hour_ago_ms = (datetime.datetime.now(datetime.UTC).timestamp() - 3600) * 1000
    assert all(found[value].timestamp_ms > an_hour_ago_ms for value in (b"a", b"c"))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            "array(struct(string(null) as key, binary('x') as value)) as headers",
            "one of its headers has no name",
        ),
        ("7 as partition", "partition 7.* its topic has no such partition"),
        ("timestamp_seconds(-5) as timestamp", "its timestamp is before 1970"),
        ("string(null) as topic", "a row has a null topic"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(
    spark: SparkSession, penstock: Broker, column: str, message: str
) -> None:
    rows = spark.range(1).selectExpr("'k' as key", "'v' as value", column)
    options = {"kafka.bootstrap.servers": penstock.bootstrap_servers} | (
        {} if "topic" in column else {"topic": "out"}
    )

    with pytest.raises(PySparkException, match=message):
        rows.write.format("penstock").mode("append").options(**options).save()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("key string", "the column value is missing"),
        ("value int", "value must be string or binary, not int"),
        ("value string, headers array<string>", "headers must be array<struct<key:string,value:binary>>"),
        ("value string, partition bigint", "partition must be int, not bigint"),
        ("value string, timestamp string", "timestamp must be timestamp, not string"),
    ],
)
def test_columns_of_a_wrong_type_are_rejected(spark: SparkSession, schema: str, message: str) -> None:
    writer = spark.createDataFrame([], schema).write.format("penstock").mode("append")

    with pytest.raises(AnalysisException, match=message.replace("<", "[<]")):
        writer.options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}).save()


def test_an_exactly_once_batch_is_written_in_transactions(spark: SparkSession, penstock: Broker) -> None:
    to(spark.range(100).selectExpr("string(id) as value").repartition(3), penstock, guarantee="exactly-once")

    assert sorted(int(m.value) for m in committed(penstock)) == list(range(100))
    assert not penstock.admin().list_transactions(states=["Ongoing"])


@pytest.mark.penstock(settings=TWO_PHASE)
def test_a_failed_batch_write_is_written_once_by_its_reruns(spark: SparkSession, penstock: Broker) -> None:
    penstock.admin().create_topic("out", partitions=2)
    rows = spark.range(100).selectExpr("string(id) as value").repartition(3)
    failing = rows.selectExpr("if(value = '77', raise_error('a bad day'), value) as value")

    with pytest.raises(PySparkException, match="a bad day"):
        to(failing, penstock, writeId="load-1")
    assert not committed(penstock)
    for _ in range(2):
        to(rows, penstock, writeId="load-1")
    with pytest.raises(PySparkException, match="was already committed, with 100 rows; this job has 99 rows"):
        to(rows.where("value != '77'"), penstock, writeId="load-1")

    assert Counter(int(m.value) for m in committed(penstock)) == Counter(range(100))
    assert not penstock.admin().list_transactions(states=["Ongoing"])


@pytest.mark.penstock(settings=TWO_PHASE)
def test_a_stream_is_written_once_and_continues_after_a_restart(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("in", partitions=2)
    penstock.admin().create_topic("out", partitions=2)
    frame = source(spark, penstock, maxOffsetsPerTrigger="20").select("value")
    for start in (0, 50):
        fill(penstock, 50, start=start)
        query = stream_to(frame, penstock, tmp_path / "checkpoint").start()
        query.awaitTermination()

    # The names under which Spark tells tasks what they work for are its own affair; this fails when they change.
    last = of_json(committed(penstock, TOPIC)[-1].value)
    assert query.lastProgress is not None
    assert isinstance(last, Decision)
    assert (last.sink, last.run, last.batch) == (str(query.id), str(query.runId), query.lastProgress.batchId)
    assert Counter(int(m.value) for m in committed(penstock)) == Counter(range(100))
    assert not penstock.admin().list_transactions(states=["Ongoing"])


@pytest.mark.penstock(settings=TWO_PHASE)
def test_a_failed_batch_is_invisible_and_the_restart_writes_it(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("in", partitions=2)
    fill(penstock, 20)
    rows = source(spark, penstock).select("value")
    failing = rows.selectExpr("if(value = '13', raise_error('a bad day'), value) as value")

    with pytest.raises(StreamingQueryException, match="a bad day"):
        stream_to(failing, penstock, tmp_path / "checkpoint").start().awaitTermination()
    stream_to(rows, penstock, tmp_path / "checkpoint").start().awaitTermination()

    assert Counter(int(m.value) for m in committed(penstock)) == Counter(range(20))
    # A task that Spark killed next to the failing one may have left its transaction, which the restart has ended.
    assert not penstock.admin().list_transactions(states=["Ongoing"])


def test_a_stream_written_at_least_once_has_no_transactions(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("in", partitions=2)
    fill(penstock, 20)

    stream = stream_to(source(spark, penstock).select("value"), penstock, tmp_path, guarantee="at-least-once")
    stream.start().awaitTermination()

    assert Counter(int(m.value) for m in committed(penstock)) == Counter(range(20))
    assert not penstock.admin().list_transactions()
