"""Fixtures of the tests with real clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat.clients.java import JavaTools
from compat.groups.members import Client, Host
from harness.brokers import Broker
from harness.group_timeouts import SHORT_GROUP_TIMEOUTS

# Groups that settle in tenths of a second, so that a test can watch several generations.
GROUP_SETTINGS = {
    **SHORT_GROUP_TIMEOUTS,
    "group.consumer.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "5",
}
# A KRaft broker that was killed registers again only after its old session has expired.
SHORT_BROKER_SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
# Few partitions for transactions, which a killed broker loads faster.
TRANSACTION_SETTINGS = {
    **GROUP_SETTINGS,
    "group.consumer.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "3000",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

StartHost = Callable[[Client], Host]


@pytest.fixture(scope="session")
def java_tools() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools


@pytest.fixture(scope="session")
def group_cluster(
    tmp_path_factory: pytest.TempPathFactory, make_broker: Callable[..., Broker]
) -> Iterator[Broker]:
    """A running broker whose groups settle fast, shared by all group tests in this process."""
    broker = make_broker(tmp_path_factory.mktemp("group-cluster"), settings=GROUP_SETTINGS)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture(scope="session")
def transaction_cluster(
    tmp_path_factory: pytest.TempPathFactory, make_broker: Callable[..., Broker]
) -> Iterator[Broker]:
    """A running broker, shared by the transaction tests in this process that do not stop it."""
    broker = make_broker(tmp_path_factory.mktemp("transaction-cluster"), settings=TRANSACTION_SETTINGS)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture(scope="module")
def host_of() -> Iterator[StartHost]:
    """The host process of a client's members: started on first use, and shared by the tests of a module."""
    hosts: dict[tuple[str, ...], Host] = {}

    def find_host(client: Client) -> Host:
        command = tuple(client.command())
        if command not in hosts:
            hosts[command] = Host(command)
        return hosts[command]

    yield find_host
    for host in hosts.values():
        host.close()
