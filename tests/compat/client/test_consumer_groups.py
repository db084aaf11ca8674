"""Consumers in groups, with both protocols: their partitions, and what counts as consumed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.client.reading import WAIT_SECONDS, RecordingListener, take, values
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.waiting import wait_until
from harness.writing import write
from penstock import Consumer, Offset, TopicPartition, errors

NUMBERS = [str(number) for number in range(100)]
PROTOCOLS = ["classic", "consumer"]

Join = Callable[..., Consumer]


@pytest.fixture
def group() -> str:
    return new_name("readers")


@pytest.fixture(params=PROTOCOLS)
def join(group_cluster: Broker, group: str, request: pytest.FixtureRequest) -> Iterator[Join]:
    """Makes members of one group, and closes them. None may leave a thread behind."""
    before = set(threading.enumerate())
    made: list[Consumer] = []

    def make(*topics: Any, **options: Any) -> Consumer:
        options.setdefault("auto_offset_reset", "earliest")
        options.setdefault("group", group)
        if request.param == "classic":
            options.setdefault("heartbeat_interval_ms", 100)
        made.append(
            Consumer(
                *topics, bootstrap_servers=group_cluster.bootstrap, group_protocol=request.param, **options
            )
        )
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()
    assert set(threading.enumerate()) <= before


def settle(*consumers: Consumer, partitions: int) -> None:
    """Poll all of them until together they own so many partitions, each at least one, and none twice."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        for consumer in consumers:
            assert consumer.poll(0.02) == []
        shares = [consumer.assignment() for consumer in consumers]
        if all(shares) and sum(map(len, shares)) == partitions:
            assert len(frozenset().union(*shares)) == partitions
            return
        assert time.monotonic() < deadline, f"shares are {shares}"


def test_committed_messages_are_not_read_again(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    partition = TopicPartition(topic, 0)
    with join(topic, enable_auto_commit=False) as consumer:
        take(consumer, 40)
        consumer.commit()
        take(consumer, 10)
        assert consumer.committed() == {partition: Offset(40, consumer.committed()[partition].leader_epoch)}

    with join(topic, enable_auto_commit=False) as consumer:
        assert values(take(consumer, 1)) == ["40"]
        assert consumer.position(partition) == 41


def test_a_commit_in_the_loop_commits_exactly_the_returned_messages(
    group_cluster: Broker, join: Join
) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    partition = TopicPartition(topic, 0)
    consumer = join(topic, enable_auto_commit=False, max_poll_records=10)

    for message in consumer:
        if message.offset in (5, 17):
            consumer.commit()
            assert consumer.committed()[partition].offset == message.offset + 1
        if message.offset == 17:
            break


def test_given_messages_and_offsets_are_committed(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders", partitions=2)
    for index in range(2):
        write(group_cluster.bootstrap, topic, NUMBERS, partition=index)
    consumer = join(topic, enable_auto_commit=False)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    messages = take(consumer, 200)

    consumer.commit([each for each in messages if each.partition == 0 and each.offset < 30])
    consumer.commit({second: Offset(7, metadata="half way")})

    found = consumer.committed(first, second)
    assert (found[first].offset, found[second].offset, found[second].metadata) == (30, 7, "half way")
    is_done = threading.Event()
    results: list[Any] = []
    consumer.commit_async(
        messages[-1], on_done=lambda offsets, error: (results.append((offsets, error)), is_done.set())
    )
    assert is_done.wait(WAIT_SECONDS)
    assert results[0][1] is None
    assert [offset.offset for offset in results[0][0].values()] == [messages[-1].offset + 1]


def test_closing_commits_the_returned_messages(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    with join(topic) as consumer:
        take(consumer, 40)
    with join(topic) as consumer:
        for message in consumer:
            assert message.value == b"40"
            break
    with join(topic) as consumer:
        assert values(take(consumer, 1)) == ["41"]


def test_a_message_whose_processing_raised_is_not_committed(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)

    def fail_at(value: bytes) -> None:
        with join(topic) as consumer:
            for message in consumer:
                if message.value == value:
                    raise RuntimeError("cannot process this one")

    def fail_in_a_poll() -> None:
        with join(topic) as consumer:
            take(consumer, 10)
            take(consumer, 10)
            raise RuntimeError("cannot process these")

    with pytest.raises(RuntimeError):
        fail_at(b"5")
    with pytest.raises(RuntimeError):
        fail_in_a_poll()

    with join(topic) as consumer:
        assert values(take(consumer, 1)) == ["15"]


def test_auto_commit_commits_periodically(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    partition = TopicPartition(topic, 0)
    consumer = join(topic, auto_commit_interval_ms=50)
    take(consumer, 100)

    def is_committed() -> bool:
        assert consumer.poll(0.02) == []
        found = consumer.committed()
        return partition in found and found[partition].offset == 100

    wait_until(is_committed, "what was given is committed")


def test_partitions_are_shared_and_go_to_the_remaining_members(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders", partitions=4)
    listeners = [RecordingListener(), RecordingListener()]
    consumers = [join(), join()]
    consumers[0].subscribe([topic], listener=listeners[0])
    settle(consumers[0], partitions=4)
    consumers[1].subscribe([topic], listener=listeners[1])
    settle(*consumers, partitions=4)
    assert any(kind == "revoked" for kind, _ in listeners[0].events)

    consumers[1].close()
    assert listeners[1].events[-1][0] == "revoked"
    settle(consumers[0], partitions=4)

    for index in range(4):
        write(group_cluster.bootstrap, topic, ["x"], partition=index)
    assert {each.partition for each in take(consumers[0], 4)} == {0, 1, 2, 3}


def test_nothing_is_lost_and_little_is_read_twice_while_members_join_and_leave(
    group_cluster: Broker, join: Join
) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders", partitions=4)
    for index in range(4):
        write(group_cluster.bootstrap, topic, NUMBERS, partition=index)
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def work(consumer: Consumer, count: int) -> None:
        for message in consumer:
            with lock:
                seen.append((message.partition, message.offset))
            count -= 1
            if not count:
                consumer.close()
                return

    first = threading.Thread(target=work, args=(join(topic, max_poll_records=10), 50))
    second = threading.Thread(target=work, args=(join(topic, max_poll_records=10), 120))
    first.start()
    second.start()
    first.join(WAIT_SECONDS)
    second.join(WAIT_SECONDS)
    last = join(topic)
    wanted = {(partition, offset) for partition in range(4) for offset in range(100)}
    deadline = time.monotonic() + WAIT_SECONDS
    while set(seen) != wanted:
        assert time.monotonic() < deadline, f"missing {sorted(wanted - set(seen))[:5]}"
        seen += [(each.partition, each.offset) for each in last.poll(0.1)]

    assert len(seen) == len(wanted), "every member committed before it let go"


def test_a_listener_may_seek_and_commit(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    consumer = join(enable_auto_commit=False)

    class Seeks:
        def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
            for partition in partitions:
                consumer.seek(partition, 90)

        def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            consumer.commit()

    consumer.subscribe(topic, listener=Seeks())
    assert values(take(consumer, 1)) == ["90"]
    consumer.close()

    with join(topic) as again:
        assert values(take(again, 1)) == ["91"]


def test_the_group_keeps_offsets_of_manually_assigned_partitions(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    partition = TopicPartition(topic, 0)
    with join(partition) as consumer:
        take(consumer, 30)
    with join(partition) as consumer:
        assert values(take(consumer, 1)) == ["30"]


def test_no_committed_offset_and_no_reset_policy_is_an_error(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    consumer = join(topic, auto_offset_reset="none")

    for _ in range(2):
        with pytest.raises(errors.NoOffset, match=topic):
            take(consumer, 1)


def test_the_assigned_partitions_can_be_read_as_columns(group_cluster: Broker, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders", partitions=2)
    for index in range(2):
        write(group_cluster.bootstrap, topic, NUMBERS, partition=index)
    with join(topic) as consumer:
        assert consumer.read().to_arrow().num_rows == 200
        consumer.commit()
    with join(topic) as consumer:
        assert consumer.read().to_arrow().num_rows == 0


def test_transactions_use_the_group_metadata(group_cluster: Broker, group: str, join: Join) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    consumer = join(topic, group_instance_id="first")
    settle(consumer, partitions=1)

    metadata = consumer.group_metadata()

    assert (metadata.group_id, metadata.instance_id) == (group, "first")
    assert metadata.member_id
    assert metadata.generation >= 0
