"""How a membership ends: a consumer leaves so that others need not wait, and closes at once without a broker."""

from __future__ import annotations

import pytest

from harness.waiting import wait_until
from penstock import Admin, Consumer, Producer
from penstock.testing import Broker

PROTOCOLS = ["classic", "consumer"]
MESSAGES = 10
LONG_S = 600  # longer than a test may take

pytestmark = [
    pytest.mark.penstock_only("uses penstock.testing"),
    pytest.mark.timeout(LONG_S / 5),
]


def consumer_of(broker: Broker, protocol: str, **more: object) -> Consumer:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "billing",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **more,
    }
    return Consumer("orders", settings=settings)


def write(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(MESSAGES):
            producer.send("orders", b"%d" % number)


def read(consumer: Consumer, count: int = MESSAGES) -> None:
    found = 0

    def is_read() -> bool:
        nonlocal found
        found += len(consumer.poll(timeout=0.05))
        return found >= count

    wait_until(is_read, f"{count} messages are read", seconds=30)


def members(broker: Broker) -> int:
    with Admin(broker.bootstrap_servers) as admin:
        return len(admin.describe_groups(["billing"])["billing"].members)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_without_a_broker_closes_fast(protocol: str) -> None:
    """It looked for the coordinator until its timeout."""
    with Broker() as broker:
        write(broker)
        consumer = consumer_of(broker, protocol)
        read(consumer)
        broker.kill()

        consumer.close(timeout=LONG_S)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_closed_consumer_is_no_longer_a_member(protocol: str) -> None:
    with Broker() as broker:
        write(broker)
        with consumer_of(broker, protocol) as consumer:
            read(consumer)
            assert members(broker) == 1
        assert members(broker) == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_closed_static_consumer_stays_a_member(protocol: str) -> None:
    with Broker() as broker:
        write(broker)
        with consumer_of(broker, protocol, **{"group.instance.id": "one"}) as consumer:
            read(consumer)
        assert members(broker) == 1
        with consumer_of(broker, protocol, **{"group.instance.id": "one"}) as consumer:
            read(consumer)
        assert members(broker) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_that_unsubscribes_leaves_and_can_rejoin(protocol: str) -> None:
    with Broker() as broker:
        write(broker)
        with consumer_of(broker, protocol) as consumer:
            read(consumer)
            consumer.unsubscribe()
            assert members(broker) == 0
            assert consumer.assignment() == frozenset()
            consumer.subscribe("orders")
            read(consumer)


def test_a_consumer_leaves_in_the_middle_of_a_rebalance() -> None:
    """Its join waits at the broker for the other member, which does not poll; closing does not wait for it."""
    with Broker() as broker:
        write(broker)
        busy = consumer_of(broker, "classic")
        read(busy)
        joining = consumer_of(broker, "classic")
        wait_until(lambda: not joining.poll(timeout=0.05) and members(broker) == 2, "it is about to join")

        joining.close(timeout=LONG_S)

        assert members(broker) == 1
        busy.close()
