"""What a query commits to its consumer group, on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import TopicPartition
from penstock.spark import clients
from penstock.spark.options import Options, Use
from penstock.spark.progress import GroupProgress
from penstock.testing import Broker

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def no_client_stays_behind() -> Iterator[None]:
    yield
    clients.POOL.clear()


def test_a_late_commit_does_not_replace_a_newer_one(penstock: Broker) -> None:
    given = {
        "kafka.bootstrap.servers": penstock.bootstrap_servers,
        "subscribe": "orders",
        "groupId": "watched",
    }
    source, listener = (GroupProgress(Options.read(given, Use.STREAM_READ)) for _ in range(2))
    with penstock.admin() as admin:
        admin.create_topic("orders", partitions=1)

        def committed() -> int:
            found = admin.list_group_offsets("watched")[ORDERS]
            assert found is not None
            return found.offset

        listener.commit({ORDERS: 3}, is_late=True)
        assert committed() == 3
        source.commit({ORDERS: 10})
        listener.commit({ORDERS: 5}, is_late=True)
        assert committed() == 10
        listener.commit({ORDERS: 12}, is_late=True)
        assert committed() == 12
        source.commit({ORDERS: 7})  # as by a query that was started from an older checkpoint
        assert committed() == 7
