"""The first batches of an idempotent producer: a broker that does not know it yet accepts any sequence number."""

from __future__ import annotations

import pytest

from penstock import Consumer, Producer
from penstock.testing import Broker

pytestmark = pytest.mark.penstock_only("needs injected faults")


def test_a_rejected_first_batch_is_not_overtaken_by_the_second() -> None:
    """The second was accepted as the first, and the first was out of order forever after."""
    with Broker() as broker:
        broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
        with Producer(broker.bootstrap_servers, batch_size=1, linger_ms=0) as producer:
            receipts = [producer.send("orders", b"%d" % number, partition=0) for number in range(10)]
            offsets = [receipt.result(timeout=30).offset for receipt in receipts]
        with Consumer("orders", bootstrap_servers=broker.bootstrap_servers) as consumer:
            values = [int(message.value) for message in consumer.read(until="end").to_messages()]

    assert offsets == list(range(10))
    assert values == list(range(10))
