"""Faults that clients survive or report, without losing anything: on Penstock, and on one node of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat.client.reading import RecordingListener
from compat.conftest import GROUP_SETTINGS, SHORT_BROKER_SESSION, StartHost
from compat.groups import members
from compat.groups.crashes import (
    check_groups,
    join_two_members_each,
    make_groups,
    wait_until_groups_continue,
)
from compat.groups.history import delivery_faults
from compat.groups.members import Client, Group, Host
from compat.groups.state import check_committed
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.own_load import OwnLoad, check_each_once_and_in_order
from harness.waiting import wait_until
from penstock import Consumer, Message, Producer, TopicPartition, errors

PARTITION_COUNT = 4
OWN_CLIENTS = [members.PENSTOCK_RANGE, members.PENSTOCK_COOPERATIVE, members.PENSTOCK_NEW]
PROTOCOLS = ["classic", "consumer"]


def consumer_of(bootstrap: str, topic: str, group: str, protocol: str, **more: object) -> Consumer:
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **more,
    }
    if protocol == "classic":
        settings = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200, **settings}
    return Consumer(topic, settings=settings)


def read_until(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    wait_until(
        lambda: bool(found.extend(consumer.poll(timeout=0.05)) or len(found) >= count),
        f"{count} messages",
        seconds=60,
    )
    return found


def write(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


@pytest.fixture
def topic(group_cluster: Broker) -> str:
    return create_topic(group_cluster.bootstrap, "trouble", partitions=PARTITION_COUNT)


def test_a_killed_broker_loses_nothing_of_producers_and_groups(
    tmp_path: Path, make_broker: Callable[..., Broker], host_of: StartHost
) -> None:
    broker = make_broker(tmp_path / "broker", settings={**GROUP_SETTINGS, **SHORT_BROKER_SESSION})
    broker.start()
    try:
        topic = create_topic(broker.bootstrap, "killed", partitions=PARTITION_COUNT)
        groups = make_groups(OWN_CLIENTS, broker.bootstrap, "killed", topic, PARTITION_COUNT)
        with OwnLoad(broker.bootstrap, topic) as load:
            join_two_members_each(groups, host_of)
            for _ in range(2):
                broker.kill()
                broker.start()
                wait_until_groups_continue(groups, load)
        check_groups(groups, load.written)
        check_each_once_and_in_order(load.stored(), load.written)
    finally:
        broker.close()
    broker.check_output()


@pytest.mark.parametrize("client", OWN_CLIENTS, ids=str)
def test_a_process_frozen_beyond_its_session_is_notified_of_lost_partitions(
    group_cluster: Broker, topic: str, host_of: StartHost, client: Client
) -> None:
    group = Group(group_cluster.bootstrap, new_name("group"), topic, partition_count=PARTITION_COUNT)
    settings = dict(client.settings)
    if not client.is_new:
        settings["session.timeout.ms"] = "1500"
    paused = Host(client.command())
    with OwnLoad(group.bootstrap, topic) as load:
        group.join(host_of(client), "a", settings)
        group.join(paused, "paused", settings)
        group.wait_until_shared_by("a", "paused")
        paused.freeze()
        group.history.wait_until(
            lambda events: is_read_by(group, "a", PARTITION_COUNT), "the other one reads everything"
        )
        paused.thaw()
        group.wait_until_shared_by("a", "paused")
    group.wait_until_read(load.written)
    events = group.history.events()
    group.leave_all()
    paused.close()

    assert [event for event in events if event.member == "paused" and event.kind == "lost"]
    assert delivery_faults(events, load.written, is_exactly_once=False) == []
    check_committed(group)


def is_read_by(group: Group, member: str, partition_count: int) -> bool:
    return len(group.owned().get(member, ())) == partition_count


def test_a_static_member_is_fenced_by_a_second_one_with_its_instance_id(
    group_cluster: Broker, topic: str
) -> None:
    group = new_name("group")
    write(group_cluster.bootstrap, topic, 10)
    older = consumer_of(group_cluster.bootstrap, topic, group, "classic", **{"group.instance.id": "one"})
    newer = consumer_of(group_cluster.bootstrap, topic, group, "classic", **{"group.instance.id": "one"})
    with older, newer:
        read_until(older, 10)
        read_until(newer, 10)

        with pytest.raises(errors.FencedInstanceId, match=r"group\.instance\.id of its own"):
            wait_until(lambda: bool(older.poll(timeout=0.05)), "the older one hears of it", seconds=30)
        with pytest.raises((errors.FencedInstanceId, errors.CommitFailed)):
            older.commit({TopicPartition(topic, 0): 1})
        newer.commit()


def test_a_second_static_consumer_member_is_rejected_while_the_first_is_active(
    group_cluster: Broker, topic: str
) -> None:
    group = new_name("group")
    write(group_cluster.bootstrap, topic, 10)
    first = consumer_of(group_cluster.bootstrap, topic, group, "consumer", **{"group.instance.id": "one"})
    second = consumer_of(group_cluster.bootstrap, topic, group, "consumer", **{"group.instance.id": "one"})
    with first, second:
        read_until(first, 10)

        with pytest.raises(errors.UnreleasedInstanceId, match="stop the other member"):
            wait_until(lambda: bool(second.poll(timeout=0.05)), "the second one hears of it", seconds=30)
        first.commit()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_that_polls_too_late_loses_its_partitions_and_cannot_commit(
    group_cluster: Broker, topic: str, protocol: str
) -> None:
    group = new_name("group")
    write(group_cluster.bootstrap, topic, 20)
    late = consumer_of(group_cluster.bootstrap, topic, group, protocol, **{"max.poll.interval.ms": 1000})
    listener = RecordingListener()
    late.subscribe(topic, listener=listener)
    other = consumer_of(group_cluster.bootstrap, topic, group, protocol)
    with late, other:
        read_until(late, 20)

        again = read_until(other, 20)  # nothing was committed, so it reads everything

        assert len(again) == 20
        with pytest.raises(errors.CommitFailed, match=r"max\.poll\.interval\.ms"):
            late.commit()
        other.commit()
        wait_until(
            lambda: bool(late.poll(timeout=0.02) or other.poll(timeout=0.02) or late.assignment()),
            "it is back",
            seconds=30,
        )
        assert "lost" in [kind for kind, _ in listener.events]
        assert not late.assignment() & other.assignment()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_transaction_commits_no_offsets_of_a_removed_consumer(
    group_cluster: Broker, topic: str, protocol: str
) -> None:
    group, output = new_name("group"), create_topic(group_cluster.bootstrap, "output")
    write(group_cluster.bootstrap, topic, 20)
    late = consumer_of(group_cluster.bootstrap, topic, group, protocol, **{"max.poll.interval.ms": 1000})
    # Kafka responds before a transaction's markers are written; read_committed consumers wait for them.
    settings = {"isolation.level": "read_committed"}
    other = consumer_of(group_cluster.bootstrap, topic, group, protocol, **settings)
    with (
        late,
        other,
        Producer(group_cluster.bootstrap, transactional_id=new_name("transactional")) as producer,
    ):
        read_until(late, 20)
        read_until(other, 20)

        def write_for(consumer: Consumer, value: bytes) -> None:
            with producer.transaction() as transaction:
                producer.send(output, value)
                transaction.send_offsets(consumer)

        with pytest.raises((errors.CommitFailed, errors.BrokerError)):
            write_for(late, b"zombie")
        assert all(offset is None for offset in other.committed(other.assignment()).values())
        write_for(other, b"rightful")
        found = other.committed(other.assignment())
        assert sum(offset.offset for offset in found.values() if offset is not None) == 20
    with Consumer(
        output, bootstrap_servers=group_cluster.bootstrap, isolation_level="read_committed"
    ) as consumer:
        values = [message.value for message in consumer.read(until="end").to_messages()]
    assert values == [b"rightful"]


def test_a_producer_is_fenced_by_another_with_its_transactional_id(group_cluster: Broker, topic: str) -> None:
    name = new_name("transactional")
    with Producer(group_cluster.bootstrap, transactional_id=name) as older:
        with older.transaction():
            older.send(topic, b"committed", partition=0).add_done_callback(lambda receipt: None)
        with Producer(group_cluster.bootstrap, transactional_id=name) as newer:
            with newer.transaction():
                newer.send(topic, b"newer", partition=0)

            with pytest.raises(errors.ProducerFenced), older.transaction():
                fenced = older.send(topic, b"fenced", partition=0)
            assert isinstance(fenced.exception(), errors.ProducerFenced)
            for call in (older.begin, older.commit, older.abort, older.flush):
                with pytest.raises(errors.ProducerFenced):
                    call()
            with pytest.raises(errors.ProducerFenced), older.transaction():
                older.send(topic, b"fenced", partition=0)

    with Consumer(
        topic, bootstrap_servers=group_cluster.bootstrap, isolation_level="read_committed"
    ) as consumer:
        values = [message.value for message in consumer.read(until="end").to_messages()]
    assert values == [b"committed", b"newer"]


def test_a_group_of_an_idle_application_continues_after_its_broker_was_replaced(
    tmp_path: Path, make_broker: Callable[..., Broker]
) -> None:
    """The broker restarts while the application is busy, and its next poll finds everything unchanged."""
    broker = make_broker(tmp_path / "broker", settings={**GROUP_SETTINGS, **SHORT_BROKER_SESSION})
    broker.start()
    try:
        topic = create_topic(broker.bootstrap, "replaced", partitions=PARTITION_COUNT)
        write(broker.bootstrap, topic, 10)
        consumers = {
            protocol: consumer_of(broker.bootstrap, topic, f"replaced-{protocol}", protocol)
            for protocol in PROTOCOLS
        }
        for consumer in consumers.values():
            read_until(consumer, 10)
            consumer.commit()
        broker.restart()
        write(broker.bootstrap, topic, 10)
        for protocol, consumer in consumers.items():
            with consumer:
                assert len(read_until(consumer, 10)) == 10, protocol
                consumer.commit()
    finally:
        broker.close()
    broker.check_output()
