"""The Spark source on a real broker, step by step and without Spark: its requests, and what its tasks read.

Also with `--broker=kafka`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.brokers import Broker
from penstock import Admin, Producer, TopicPartition
from penstock.spark import clients
from penstock.spark.columns import chosen
from penstock.spark.errors import DataLost
from penstock.spark.options import Options, Use
from penstock.spark.reading import RangeReader
from penstock.spark.stream import PenstockStreamReader

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture
def broker(tmp_path: Path, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    broker = make_broker(tmp_path / "broker", settings=SETTINGS)
    broker.start()
    yield broker
    clients.POOL.clear()
    broker.close()
    broker.check_output()


class Query:
    """A stream as Spark runs it: one batch after another, each from the end of the last."""

    def __init__(self, broker: Broker, **options: str) -> None:
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribePattern": "orders-.*",
            "startingOffsets": "earliest",
            "groupId": "watched",
            "fetchOffset.retryIntervalMs": "100",
            **options,
        }
        self.options = Options.read(given, Use.STREAM_READ)
        reader = RangeReader(self.options, chosen(None, with_headers=True))
        self.stream = PenstockStreamReader(self.options, reader, cores=2)
        self.place: dict[str, Any] = {}

    def run(self) -> list[bytes]:
        """The values of the next batch."""
        stream = self.stream
        start = self.place or stream.initialOffset()
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        rows = [
            row
            for task in stream.partitions(start, end)
            for batch in stream.read(task)
            for row in batch.to_pylist()
        ]
        self.place = end
        return sorted(row["value"] for row in rows)


def send(broker: Broker, topic: str, partition: int, *values: bytes, **settings: Any) -> None:
    with Producer(broker.bootstrap, **settings) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, headers=[("h", b"1")])


def test_a_stream_follows_topics_through_growth_transactions_and_retention(broker: Broker) -> None:
    with Admin(broker.bootstrap) as admin:
        admin.create_topic("orders-a", partitions=2, replication_factor=1)
        send(broker, "orders-a", 0, b"1", b"2", compression_type="zstd")
        query = Query(broker)
        assert query.run() == [b"1", b"2"]

        # New partitions and topics
        admin.create_partitions({"orders-a": 3})
        admin.create_topic("orders-b", partitions=1, replication_factor=1)
        send(broker, "orders-a", 2, b"3", compression_type="gzip")
        send(broker, "orders-b", 0, b"4", b"5", compression_type="lz4")
        assert query.run() == [b"3", b"4", b"5"]

        # Transactions
        with Producer(broker.bootstrap, transactional_id="t") as producer:
            with producer.transaction():
                producer.send("orders-b", b"6", partition=0)
            with producer.transaction():
                producer.send("orders-b", b"7", partition=0)
                producer.flush()
                assert query.run() == [b"6"]
        assert query.run() == [b"7"]

        # The group's offsets are one batch behind: they are committed when the next batch is planned.
        assert query.run() == []
        committed = admin.list_group_offsets("watched")
        assert {f"{place}": at.offset for place, at in committed.items()} == {
            "orders-a-0": 2,
            "orders-a-1": 0,
            "orders-a-2": 1,
            "orders-b-0": 6,
        }

        # Retention
        send(broker, "orders-b", 0, b"8", b"9")
        admin.delete_records({TopicPartition("orders-b", 0): 7})
        with pytest.raises(
            DataLost, match=r"cannot read offsets \[6, 7\) of orders-b-0: the log starts at offset 7"
        ):
            query.run()


def test_a_recreated_topic_is_detected(broker: Broker) -> None:
    with Admin(broker.bootstrap) as admin:
        admin.create_topic("orders-a", partitions=1, replication_factor=1)
        send(broker, "orders-a", 0, b"old")
        strict, lenient = Query(broker), Query(broker, failOnDataLoss="false")
        assert strict.run() == lenient.run() == [b"old"]

        admin.delete_topic("orders-a")
        admin.create_topic("orders-a", partitions=1, replication_factor=1)
        send(broker, "orders-a", 0, b"new 1", b"new 2")

        with pytest.raises(DataLost, match="topic orders-a was deleted and recreated"):
            strict.run()
        assert lenient.run() == [b"new 1", b"new 2"]
        assert lenient.run() == []
