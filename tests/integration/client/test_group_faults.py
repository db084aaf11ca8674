"""Coordinators that load, move, or lose requests and responses: members and commits survive it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.waiting import wait_until
from penstock import Consumer, Message, Producer, TopicPartition, errors
from penstock.testing import Broker

pytestmark = pytest.mark.penstock_only("needs injected faults")

CLASSIC = ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "OffsetCommit"]
NEWER = ["FindCoordinator", "ConsumerGroupHeartbeat", "OffsetFetch", "OffsetCommit"]
APIS = [("classic", api) for api in CLASSIC] + [("consumer", api) for api in NEWER]
MESSAGES = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "num.partitions": 4,
        "group.min.session.timeout.ms": 1000,
        "group.consumer.heartbeat.interval.ms": 200,
        "group.consumer.min.heartbeat.interval.ms": 100,
    }
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(MESSAGES):
            producer.send(name, b"%d" % number)
    return name


def consumer_of(broker: Broker, topic: str, protocol: str) -> Consumer:
    settings: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": topic,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "request.timeout.ms": 1000,
    }
    if protocol == "classic":
        settings |= {"heartbeat.interval.ms": 200, "max.poll.interval.ms": 10_000, "session.timeout.ms": 6000}
    return Consumer(topic, settings=settings)


def read_and_commit(consumer: Consumer, topic: str) -> None:
    found: list[Message] = []
    wait_until(
        lambda: bool(found.extend(consumer.poll(timeout=0.05)) or len(found) >= MESSAGES),
        "all messages are read",
        seconds=30,
    )
    assert sorted(int(message.value) for message in found) == list(range(MESSAGES))
    consumer.commit()
    partitions = consumer.assignment()
    committed = consumer.committed(partitions)
    assert sum(offset.offset for offset in committed.values() if offset is not None) == MESSAGES


def keep_alive_until_used_up(broker: Broker, consumer: Consumer) -> None:
    wait_until(
        lambda: bool(consumer.poll(timeout=0.02)) or not broker.faults.pending,
        "the faults have happened",
        seconds=30,
    )


@pytest.mark.parametrize(("protocol", "api"), APIS)
@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
def test_a_loading_or_moved_coordinator_is_waited_for(
    broker: Broker, topic: str, protocol: str, api: str, error: str
) -> None:
    if api == "FindCoordinator":
        error = "COORDINATOR_NOT_AVAILABLE"
    broker.faults.fail(api, error, times=2)
    with consumer_of(broker, topic, protocol) as consumer:
        read_and_commit(consumer, topic)
        keep_alive_until_used_up(broker, consumer)
        consumer.commit()


# A join may be answered after minutes, so a missing response to it is not tested.
LOSSES = [
    (protocol, api, fault)
    for protocol, api in APIS
    for fault in ("drop_request", "drop_response", "silence")
    if (api, fault) != ("JoinGroup", "silence")
]


@pytest.mark.parametrize(("protocol", "api", "fault"), LOSSES)
def test_lost_requests_and_responses_are_retried(
    broker: Broker, topic: str, protocol: str, api: str, fault: str
) -> None:
    getattr(broker.faults, fault)(api)
    with consumer_of(broker, topic, protocol) as consumer:
        read_and_commit(consumer, topic)
        keep_alive_until_used_up(broker, consumer)
        consumer.commit()


@pytest.mark.parametrize(
    ("protocol", "api", "error"),
    [
        ("classic", "Heartbeat", "UNKNOWN_MEMBER_ID"),
        ("classic", "Heartbeat", "ILLEGAL_GENERATION"),
        ("consumer", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
        ("consumer", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("consumer", "ConsumerGroupHeartbeat", "GROUP_ID_NOT_FOUND"),
    ],
)
def test_a_removed_member_rejoins_and_continues_at_the_committed_offset(
    broker: Broker, topic: str, protocol: str, api: str, error: str
) -> None:
    with consumer_of(broker, topic, protocol) as consumer:
        read_and_commit(consumer, topic)
        before = consumer.group_metadata().member_id
        broker.faults.fail(api, error)
        keep_alive_until_used_up(broker, consumer)
        with Producer(broker.bootstrap_servers) as producer:
            producer.send(topic, b"more")

        found: list[Message] = []
        wait_until(
            lambda: bool(found.extend(consumer.poll(timeout=0.05)) or found), "it continues", seconds=30
        )

        assert [message.value for message in found] == [b"more"]
        assert (consumer.group_metadata().member_id == before) is (
            protocol == "consumer" or "ILLEGAL" in error
        )
        consumer.commit()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_of_a_removed_member_is_reported(broker: Broker, topic: str, protocol: str) -> None:
    with consumer_of(broker, topic, protocol) as consumer:
        read_and_commit(consumer, topic)
        broker.faults.fail("OffsetCommit", "UNKNOWN_MEMBER_ID")

        with pytest.raises(errors.CommitFailed, match="rebalanced without this member"):
            consumer.commit()
        wait_until(
            lambda: not consumer.poll(timeout=0.02) and bool(consumer.assignment()), "it is back", seconds=30
        )
        consumer.commit({TopicPartition(topic, 0): 0})
