"""Shared fixtures of the wire tests: a broker, a topic, a group id, and a transactional producer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import JoinedMember, await_coordinator, join
from harness.requests import create_topic
from harness.transactions import TransactionalProducer
from harness.wire import WireConnection


@pytest.fixture(scope="session")
def group_cluster(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Iterator[Broker]:
    """A broker in which the first member of a group need not wait for others."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    broker: Broker = make_broker(tmp_path_factory.mktemp("groups"), settings=settings)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def group_connection(group_cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(group_cluster.port) as connection:
        yield connection


@pytest.fixture
def topic_read(group_connection: WireConnection) -> str:
    """A topic of three partitions."""
    name = new_name("committed")
    create_topic(group_connection, name, partitions=3)
    return name


@pytest.fixture
def group(group_connection: WireConnection) -> str:
    """The name of a group that is not there yet; its coordinator is."""
    name = new_name("readers")
    await_coordinator(group_connection, name)
    return name


@pytest.fixture
def member(group_connection: WireConnection, group: str, topic_read: str) -> Iterator[JoinedMember]:
    """The only member of a stable classic group that reads the topic."""
    member = join(group_connection, group, topic_read)
    yield member
    member.leave(group_connection)


@pytest.fixture
def producing_connection(cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(cluster.port) as connection:
        yield connection


@pytest.fixture
def topic_written(producing_connection: WireConnection) -> str:
    """A topic of three partitions."""
    name = new_name("written")
    create_topic(producing_connection, name, partitions=3)
    return name


@pytest.fixture
def producer(producing_connection: WireConnection) -> TransactionalProducer:
    """A producer with an epoch (1, so that there is an older one) and no transaction yet."""
    producer = TransactionalProducer.started(producing_connection, new_name("writer"))
    producer.init()
    return producer
