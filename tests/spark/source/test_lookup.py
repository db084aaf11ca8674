"""What a query is found to read, on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import TopicPartition
from penstock.spark import clients
from penstock.spark.lookup import Lookup
from penstock.spark.options import Options, Use
from penstock.spark.sink import DECISIONS_TOPIC
from penstock.testing import Broker


@pytest.fixture(autouse=True)
def no_client_stays_behind() -> Iterator[None]:
    yield
    clients.POOL.clear()


def lookup(broker: Broker, **said: str) -> Lookup:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **said}
    return Lookup(Options.read(given, Use.STREAM_READ))


def create(broker: Broker, *names: str) -> None:
    with broker.admin() as admin:
        for name in names:
            admin.create_topic(name, partitions=1)


def test_a_pattern_does_not_find_the_log_of_sinks(penstock: Broker) -> None:
    create(penstock, "orders", DECISIONS_TOPIC)
    by_pattern = lookup(penstock, subscribePattern=".*")

    assert by_pattern.found().partitions == (TopicPartition("orders", 0),)
    assert not by_pattern.reads(TopicPartition(DECISIONS_TOPIC, 0))
    assert lookup(penstock, subscribe=DECISIONS_TOPIC).found().partitions == (
        TopicPartition(DECISIONS_TOPIC, 0),
    )


def test_partitions_that_were_assigned_and_are_not_there_are_missing(penstock: Broker) -> None:
    create(penstock, "orders")
    found = lookup(penstock, assign='{"orders": [0, 9], "nothing": [0]}').found()

    assert found.partitions == (TopicPartition("orders", 0),)
    assert found.missing == ("topic nothing", "partition orders-9")
