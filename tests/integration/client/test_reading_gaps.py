"""A bounded read over a long range without records for it."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from penstock import Producer, TopicPartition
from penstock.client.consumer import aio, sync
from penstock.testing import Broker

ORDERS = TopicPartition("orders", 0)
ABORTED = 40
SETTINGS = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "none",
    "fetch.max.bytes": "1000",  # so that every response has one batch
    "max.partition.fetch.bytes": "1000",
}


@pytest.fixture
def gap(penstock: Broker) -> Broker:
    """A topic with many aborted batches before its first committed record."""
    with Producer(bootstrap_servers=penstock.bootstrap_servers, transactional_id="t") as producer:
        producer.begin()
        for _ in range(ABORTED):
            producer.send("orders", bytes(900), partition=0)
            producer.flush()
        producer.abort()
        producer.begin()
        producer.send("orders", b"last", partition=0)
        producer.commit()
    return penstock


def seconds_fly() -> SimpleNamespace:
    """A clock that advances by a second each time it is read."""
    seconds = itertools.count()
    return SimpleNamespace(monotonic=lambda: float(next(seconds)))


def test_a_read_does_not_time_out_while_aborted_records_arrive(
    gap: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gap.consumer(settings=SETTINGS) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 0)
        monkeypatch.setattr(sync, "time", seconds_fly())

        batches = list(consumer.read({ORDERS: ABORTED + 2}, timeout=5.0))

    assert [batch.column("value").to_pylist() for batch in batches] == [[b"last"]]


def test_an_asynchronous_read_does_not_time_out_while_aborted_records_arrive(
    gap: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read() -> list[bytes]:
        async with aio.Consumer(bootstrap_servers=gap.bootstrap_servers, settings=SETTINGS) as consumer:
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, 0)
            monkeypatch.setattr(aio, "_now_s", seconds_fly().monotonic)
            table = await consumer.read({ORDERS: ABORTED + 2}, timeout=5.0).to_arrow()
            return [value.as_py() for value in table.column("value")]

    assert asyncio.run(read()) == [b"last"]
