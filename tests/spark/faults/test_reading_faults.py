"""Faults while a task reads its range: every record is read once, or its loss is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock import TopicPartition
from penstock.spark import clients
from penstock.spark.decoding.poison import Decoding, decoders_of
from penstock.spark.errors import CannotRead, DataLost, PoisonRecord
from penstock.spark.options import Options, Use
from penstock.spark.plan import Range
from penstock.spark.reading import RangeReader
from penstock.testing import Broker

ZERO = TopicPartition("orders", 0)
ROWS = 60_000  # several fetches


@pytest.fixture(autouse=True)
def _clients_end_with_the_test() -> Iterator[None]:
    yield
    clients.POOL.clear()


def options(broker: Broker, **given: str) -> Options:
    # Small fetches, so that the read takes several.
    settings = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.max.partition.fetch.bytes": "65536",
    }
    return Options.read(
        {**settings, "subscribe": "orders", "kafkaConsumer.pollTimeoutMs": "60000", **given}, Use.READ
    )


def fill(broker: Broker) -> None:
    broker.admin().create_topic("orders", partitions=1, config={"segment.bytes": 1 << 20})
    table = pa.table({"value": pa.array([b"%050d" % number for number in range(ROWS)], pa.binary())})
    with broker.producer(batch_size=20_000) as producer:
        producer.send_arrow(table, topic="orders")


def offsets_of(batch: pa.RecordBatch) -> list[int]:
    offsets: list[int] = batch.column("offset").to_pylist()
    return offsets


def test_a_broker_that_dies_during_a_read_and_comes_back_loses_no_record(penstock: Broker) -> None:
    fill(penstock)
    reading = RangeReader(options(penstock), ("offset", "value")).read(Range(ZERO, 0, ROWS))

    seen = offsets_of(next(reading))
    penstock.kill()
    penstock.start()
    for batch in reading:
        seen += offsets_of(batch)

    assert len(seen) == ROWS
    assert seen == list(range(ROWS))


def test_lost_connections_and_leaders_lose_no_record(penstock: Broker) -> None:
    fill(penstock)
    penstock.faults.drop_response("Fetch", times=2)
    penstock.faults.fail("Fetch", "NOT_LEADER", times=1)
    penstock.faults.fail("Fetch", "UNKNOWN_LEADER_EPOCH", times=1)

    seen = [
        offset
        for batch in RangeReader(options(penstock), ("offset",)).read(Range(ZERO, 7, ROWS))
        for offset in offsets_of(batch)
    ]

    assert seen == list(range(7, ROWS))
    assert penstock.faults.pending == []


def test_records_deleted_during_a_read_are_a_loss_with_their_offsets(
    penstock: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    fill(penstock)
    penstock.admin().delete_records({ZERO: 50_000})

    with pytest.raises(DataLost, match=r"offsets \[10, 50000\) of orders-0: the log"):
        list(RangeReader(options(penstock), ("offset",)).read(Range(ZERO, 10, ROWS)))
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        tolerant = RangeReader(options(penstock, failOnDataLoss="false"), ("offset",))
        seen = [offset for batch in tolerant.read(Range(ZERO, 10, ROWS)) for offset in offsets_of(batch)]

    assert seen == list(range(50_000, ROWS))
    assert "offsets [10, 50000) of orders-0" in caplog.text


def test_a_task_that_times_out_names_what_it_waited_for(penstock: Broker) -> None:
    fill(penstock)
    penstock.faults.silence("Fetch", times=1000)

    with pytest.raises(
        CannotRead, match=rf"could not read offsets \[7, {ROWS}\) of orders-0 within 0\.3 s: .*pollTimeoutMs"
    ):
        list(
            RangeReader(options(penstock, **{"kafkaConsumer.pollTimeoutMs": "300"}), ("offset",)).read(
                Range(ZERO, 7, ROWS)
            )
        )


def test_an_unauthorized_topic_is_named_with_the_offsets(penstock: Broker) -> None:
    fill(penstock)
    penstock.faults.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=1000)

    with pytest.raises(CannotRead, match=rf"offsets \[0, {ROWS}\) of orders-0: .* not allowed"):
        list(RangeReader(options(penstock), ("offset",)).read(Range(ZERO, 0, ROWS)))


@pytest.mark.penstock(settings={"auto.create.topics.enable": False})
def test_a_topic_deleted_during_a_read_is_a_loss(penstock: Broker) -> None:
    fill(penstock)
    reading = RangeReader(options(penstock), ("offset",)).read(Range(ZERO, 0, ROWS))
    next(reading)
    penstock.admin().delete_topic("orders")

    with pytest.raises(DataLost, match=rf"\[\d+, {ROWS}\) of orders-0: the partition was deleted"):
        list(reading)


def test_a_topic_recreated_during_a_read_is_not_taken_for_the_old_one(penstock: Broker) -> None:
    fill(penstock)
    planned = penstock.admin().describe_topic("orders").topic_id
    reading = RangeReader(options(penstock), ("offset",)).read(Range(ZERO, 0, ROWS), planned)
    next(reading)
    penstock.admin().delete_topic("orders")
    fill(penstock)

    with pytest.raises(
        DataLost, match=rf"topic orders was deleted and recreated .* during the read of offsets \[0, {ROWS}\)"
    ):
        list(reading)


def test_dead_letters_of_a_repeated_task_are_not_sent_again(penstock: Broker) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    with penstock.producer() as producer:
        for value in (b"a", b"\xff", b"b", b"\xfe"):
            producer.send("orders", value)
    given = options(penstock, valueFormat="string", deadLetterTopic="dead", groupId="test")

    def read(end: int) -> list[str]:
        decoding = Decoding(given, ("value",), decoders_of(given))
        batches = RangeReader(given, decoding.needs, decoding).read(Range(ZERO, 0, end))
        return [value for batch in batches for value in batch.column("value").to_pylist()]

    assert read(3) == ["a", "b"]  # as if the task had died then
    assert read(4) == ["a", "b"]
    assert read(4) == ["a", "b"]

    with penstock.consumer("dead") as consumer:
        letters = consumer.read(until="end").to_messages()
    assert [letter.value for letter in letters] == [b"\xff", b"\xfe"]
    assert [dict(letter.headers)["__connect.errors.offset"] for letter in letters] == [b"1", b"3"]


def test_dead_letters_that_cannot_be_delivered_fail_the_task(penstock: Broker) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    penstock.admin().create_topic("dead", partitions=1, config={"max.message.bytes": 100})
    with penstock.producer() as producer:
        producer.send("orders", b"\xff" * 200)
    given = options(penstock, valueFormat="string", deadLetterTopic="dead")
    decoding = Decoding(given, ("value",), decoders_of(given))

    with pytest.raises(
        PoisonRecord,
        match=r"offset 0 of orders-0, and cannot send its dead letter to dead: .*max\.message\.bytes",
    ):
        list(RangeReader(given, decoding.needs, decoding).read(Range(ZERO, 0, 1)))


def test_a_record_of_the_maximum_size_still_becomes_a_dead_letter(penstock: Broker) -> None:
    penstock.admin().create_topic("orders", partitions=1)
    with penstock.producer() as producer:
        producer.send("orders", b"\xff" * 1_048_400)
    given = options(penstock, valueFormat="string", deadLetterTopic="dead")
    decoding = Decoding(given, ("value",), decoders_of(given))

    assert [
        batch.num_rows for batch in RangeReader(given, decoding.needs, decoding).read(Range(ZERO, 0, 1))
    ] == []

    with penstock.consumer("dead") as consumer:
        (letter,) = consumer.read(until="end").to_messages()
    assert len(letter.value) == 1_048_400
