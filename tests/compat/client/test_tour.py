"""The compatibility tour: what users do, step by step, with both clients, on Penstock and on Apache Kafka.

Every test runs four times: `penstock` and `penstock.aio`, against Penstock and against a real Apache Kafka. A
difference between the two brokers is a bug of Penstock.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from compat.client.reading import values
from compat.client.tour import FACES, WAIT_SECONDS, Face, done, eventually
from compat.conftest import TRANSACTION_SETTINGS
from harness.admin import new_name
from harness.brokers import Broker, KafkaBroker, PenstockBroker
from penstock import Offset, TopicPartition, errors
from penstock.admin import ConfigResource, GroupState, TransactionState

BROKERS: dict[str, type[Broker]] = {"penstock": PenstockBroker, "kafka": KafkaBroker}
PROTOCOLS = ("classic", "consumer")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

MakeTopic = Callable[..., Any]


@pytest.fixture(scope="module", params=list(BROKERS))
def tour_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole tour."""
    options: dict[str, Any] = {}
    if request.param == "kafka":
        options["libs"] = request.config.getoption("--kafka-libs")
    folder = tmp_path_factory.mktemp(f"tour-{request.param}")
    broker = BROKERS[request.param](folder, settings=TRANSACTION_SETTINGS, **options)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture(params=list(FACES))
async def face(tour_broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[Face]:
    """The clients. They are closed after each step, and leave no thread."""
    before = set(threading.enumerate())
    face = Face(request.param, tour_broker.bootstrap)
    yield face
    await face.close()
    left = [
        each.name for each in threading.enumerate() if each not in before and each.name.startswith("penstock")
    ]
    assert left == []


@pytest.fixture
async def topic(face: Face) -> str:
    """A topic with three partitions."""
    return await make_topic(face)


async def make_topic(face: Face, *, partitions: int = 3, **config: str) -> str:
    name = new_name(f"tour-{face.name}")
    settings = {key.replace("_", "."): value for key, value in config.items()}
    await done(face.admin().create_topic(name, partitions, 1, settings))
    return name


async def write(face: Face, topic: str, values: list[str], **options: Any) -> None:
    """Write these values, spread over the partitions in turn."""
    producer = face.producer(**options)
    for number, value in enumerate(values):
        await done(producer.send(topic, value, partition=number % 3))
    await done(producer.close())


def numbers(count: int, *, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


# -- produce


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_records_come_back_unchanged(face: Face, topic: str, acks: str, compression: str) -> None:
    sent: list[tuple[Any, ...]] = [
        (b"value", b"key", {"trace": b"1"}),
        ("text", "käy", [("twice", b"1"), ("twice", b"2"), ("nothing", None)]),
        (b"", b"", None),
        (None, "gone", None),  # a tombstone
        (b"no key", None, {"text": "is taken too"}),
        (b"x" * 50_000, b"large", None),
    ]
    # With acks=0 a record sent before the broker leads the new partition would be lost silently.
    await face.send(face.producer(), topic, b"first", partition=1)
    producer = face.producer(acks=acks, compression_type=compression, enable_idempotence=acks == "all")
    for number, (value, key, headers) in enumerate(sent):
        await done(
            producer.send(
                topic, value, key=key, headers=headers, partition=1, timestamp_ms=1_000_000 + number
            )
        )
    await done(producer.flush())
    consumer = face.consumer(TopicPartition(topic, 1))
    _, *received = await face.take(consumer, 1 + len(sent))
    assert [message.offset for message in received] == list(range(1, 1 + len(sent)))
    assert [message.timestamp_ms for message in received] == [
        1_000_000 + number for number in range(len(sent))
    ]
    assert [message.value for message in received] == [
        b"value",
        b"text",
        b"",
        None,
        b"no key",
        b"x" * 50_000,
    ]
    assert [message.key for message in received] == [b"key", "käy".encode(), b"", b"gone", None, b"large"]
    assert [list(message.headers) for message in received] == [
        [("trace", b"1")],
        [("twice", b"1"), ("twice", b"2"), ("nothing", None)],
        [],
        [],
        [("text", b"is taken too")],
        [],
    ]


async def test_a_delivery_has_partition_and_offset(face: Face, topic: str) -> None:
    producer = face.producer()
    first = await face.send(producer, topic, b"one", partition=2, timestamp_ms=77)
    second = await face.send(producer, topic, b"two", partition=2)
    assert (first.topic, first.partition, first.offset, first.timestamp_ms) == (topic, 2, 0, 77)
    assert second.offset == 1
    assert abs(second.timestamp_ms - time.time() * 1000) < 60_000


async def test_records_of_one_key_go_to_the_same_partition_as_in_java(face: Face, topic: str) -> None:
    producer = face.producer()
    found = {}
    for key in ("alice", "bob", "carol", "dave", "eve"):
        partitions = {(await face.send(producer, topic, b"x", key=key)).partition for _ in range(3)}
        assert len(partitions) == 1
        found[key] = partitions.pop()
    # The partitions that Apache Kafka's producer chooses among three (murmur2).
    assert found == {"alice": 0, "bob": 0, "carol": 2, "dave": 1, "eve": 2}


async def test_many_records_arrive_once_and_in_order(face: Face, topic: str) -> None:
    producer = face.producer(linger_ms=1, batch_size=5000)
    for number in range(20_000):
        await done(producer.send(topic, str(number), partition=number % 3))
    await done(producer.close())
    messages = await face.read(face.consumer(topic))
    assert len(messages) == 20_000
    for partition in range(3):
        own = [int(message.value) for message in messages if message.partition == partition]
        assert own == list(range(partition, 20_000, 3))


async def test_the_first_record_creates_the_topic(face: Face) -> None:
    name = new_name("made-by-producing")
    await face.send(face.producer(), name, b"first")
    assert values(await face.read(face.consumer(name))) == ["first"]


async def test_serializers_and_deserializers(face: Face, topic: str) -> None:
    producer = face.producer(serializer="json", key_serializer="string")
    await face.send(producer, topic, {"id": 1, "of": ["a", None]}, key="alice")
    consumer = face.consumer(topic, deserializer="json", key_deserializer="string")
    (message,) = await face.take(consumer, 1)
    assert (message.key, message.value) == ("alice", {"id": 1, "of": ["a", None]})


async def test_a_record_too_large_for_the_broker_fails_its_receipt(face: Face) -> None:
    name = await make_topic(face, partitions=1, max_message_bytes="1000")
    producer = face.producer()
    with pytest.raises(errors.MessageTooLarge):
        await face.send(producer, name, b"x" * 5000)
    assert (await face.send(producer, name, b"small")).offset == 0


async def test_log_append_time_is_returned(face: Face) -> None:
    name = await make_topic(face, partitions=1, message_timestamp_type="LogAppendTime")
    delivery = await face.send(face.producer(), name, b"x", timestamp_ms=1)
    assert abs(delivery.timestamp_ms - time.time() * 1000) < 60_000
    (message,) = await face.take(face.consumer(name), 1)
    assert message.timestamp_ms == delivery.timestamp_ms


# -- consume


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_continues_at_its_committed_offset(face: Face, topic: str, protocol: str) -> None:
    await write(face, topic, numbers(30))
    group = new_name("readers")
    options = {"group": group, "group_protocol": protocol, "enable_auto_commit": False}
    first = face.consumer(topic, **options)
    taken = await face.take(first, 10)
    await done(first.commit())
    await done(first.close())
    second = face.consumer(topic, **options)
    rest = await face.take(second, 20)
    assert sorted(values(taken) + values(rest), key=int) == numbers(30)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_loop_over_a_consumer_commits_automatically(face: Face, topic: str, protocol: str) -> None:
    await write(face, topic, numbers(9))
    options = {"group": new_name("readers"), "group_protocol": protocol}
    first = face.consumer(topic, **options)
    assert sorted(values(await face.iterate(first, 9))) == numbers(9)
    await done(first.poll(0))  # the last message of a loop counts when the next one is requested
    await done(first.close())
    await write(face, topic, ["more"])
    assert values(await face.take(face.consumer(topic, **options), 1)) == ["more"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_members_share_the_partitions(face: Face, topic: str, protocol: str) -> None:
    options = {"group": new_name("readers"), "group_protocol": protocol, "metadata_max_age_ms": 1000}
    if protocol == "classic":
        options |= {"heartbeat_interval_ms": 100}
    one, other = face.consumer(topic, **options), face.consumer(topic, **options)
    deadline = time.monotonic() + WAIT_SECONDS
    while not (one.assignment() and other.assignment() and len(one.assignment() | other.assignment()) == 3):
        assert time.monotonic() < deadline, f"{one.assignment()} and {other.assignment()}"
        await done(one.poll(0.05))
        await done(other.poll(0.05))
    assert not one.assignment() & other.assignment()
    await done(one.close())
    while len(other.assignment()) != 3:
        assert time.monotonic() < deadline, f"{other.assignment()}"
        await done(other.poll(0.05))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_topics_are_found_by_a_pattern(face: Face, protocol: str) -> None:
    stem = new_name("pattern")
    admin = face.admin()
    for name in (f"{stem}-a", f"{stem}-b", f"other-{stem}"):
        await done(admin.create_topic(name, 1, 1))
        await face.send(face.producer(), name, name)
    consumer = face.consumer(re.compile(f"{stem}-.*"), group=new_name("readers"), group_protocol=protocol)
    assert sorted(values(await face.take(consumer, 2))) == [f"{stem}-a", f"{stem}-b"]


async def test_seeking(face: Face, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    producer = face.producer()
    for number in range(10):
        await done(producer.send(topic, str(number), partition=0, timestamp_ms=1000 * (number + 1)))
    await done(producer.flush())
    consumer = face.consumer()
    consumer.assign([partition])
    assert values(await face.take(consumer, 3)) == ["0", "1", "2"]
    assert await done(consumer.position(partition)) == 3
    consumer.seek(partition, 7)
    assert values(await face.take(consumer, 1)) == ["7"]
    consumer.seek_to_beginning(partition)
    assert values(await face.take(consumer, 1)) == ["0"]
    consumer.seek_to_time(4500, partition)
    assert values(await face.take(consumer, 1)) == ["4"]
    consumer.seek_to_end(partition)
    assert await done(consumer.position(partition)) == 10
    await face.send(producer, topic, b"new", partition=0)
    assert values(await face.take(consumer, 1)) == ["new"]


async def test_a_paused_partition_returns_nothing(face: Face, topic: str) -> None:
    await write(face, topic, numbers(6))
    consumer = face.consumer()
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    consumer.pause(TopicPartition(topic, 0))
    assert {message.partition for message in await face.take(consumer, 2)} == {1}
    assert await done(consumer.poll(0.2)) == []
    consumer.resume(TopicPartition(topic, 0))
    assert {message.partition for message in await face.take(consumer, 2)} == {0}


async def test_end_offsets_and_timestamps_are_looked_up(face: Face, topic: str) -> None:
    producer = face.producer()
    for timestamp_ms in (1000, 2000, 3000):
        await face.send(producer, topic, b"x", partition=0, timestamp_ms=timestamp_ms)
    consumer = face.consumer()
    first, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert await done(consumer.beginning_offsets([first, empty])) == {first: 0, empty: 0}
    assert await done(consumer.end_offsets([first, empty])) == {first: 3, empty: 0}
    found = await done(consumer.offsets_for_times({first: 1500, empty: 1500}))
    assert (found[first].offset, found[first].timestamp_ms) == (1, 2000)
    assert found[empty] is None
    assert len(await done(consumer.partitions_for(topic))) == 3
    assert topic in await done(consumer.topics())


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_given_offsets_are_committed_with_metadata(face: Face, topic: str, protocol: str) -> None:
    await write(face, topic, numbers(9))
    consumer = face.consumer(
        topic, group=new_name("readers"), group_protocol=protocol, enable_auto_commit=False
    )
    await face.take(consumer, 9)
    partition, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await done(consumer.commit({partition: Offset(2, metadata="so far")}))
    committed = await done(consumer.committed([partition, other]))
    assert (committed[partition].offset, committed[partition].metadata) == (2, "so far")
    assert other not in committed


@pytest.mark.parametrize(("reset", "expected"), [("earliest", ["old", "new"]), ("latest", ["new"])])
async def test_a_new_group_starts_as_configured(face: Face, reset: str, expected: list[str]) -> None:
    topic = await make_topic(face, partitions=1)
    await face.send(face.producer(), topic, b"old")
    consumer = face.consumer(topic, group=new_name("readers"), auto_offset_reset=reset)
    deadline = time.monotonic() + WAIT_SECONDS
    seen: list[Any] = []
    while not consumer.positions():  # until it knows its start position
        assert time.monotonic() < deadline
        seen += await done(consumer.poll(0.05))
    await face.send(face.producer(), topic, b"new")
    seen += await face.take(consumer, len(expected) - len(seen))
    assert values(seen) == expected


async def test_a_group_without_offsets_may_fail_by_configuration(face: Face, topic: str) -> None:
    consumer = face.consumer(topic, group=new_name("readers"), auto_offset_reset="none")
    with pytest.raises(errors.NoOffset):
        await face.take(consumer, 1)


async def test_a_topic_is_read_into_a_table(face: Face, topic: str) -> None:
    await write(face, topic, numbers(999))
    table = await done(face.consumer(topic).read(until="end").to_arrow())
    assert table.num_rows == 999
    assert sorted(int(value) for value in table["value"].to_pylist()) == list(range(999))
    assert set(table["topic"].to_pylist()) == {topic}


# -- transactions


class ChangedMyMind(Exception):
    pass


async def write_and_regret(face: Face, producer: Any, topic: str) -> None:
    async with face.transaction(producer):
        for number in range(3):
            await face.send(producer, topic, f"aborted-{number}", partition=number)
        raise ChangedMyMind


async def write_and_commit(face: Face, producer: Any, topic: str) -> None:
    await face.send(producer, topic, b"late")
    await done(producer.commit())


async def test_committed_transactions_are_visible_and_aborted_ones_are_not(face: Face, topic: str) -> None:
    producer = face.producer(transactional_id=new_name("writer"))
    async with face.transaction(producer):
        for number in range(3):
            await done(producer.send(topic, f"committed-{number}", partition=number))

    with pytest.raises(ChangedMyMind):
        await write_and_regret(face, producer, topic)
    async with face.transaction(producer):
        await done(producer.send(topic, "last", partition=0))
    committed = await face.read(face.consumer(topic, isolation_level="read_committed"))
    assert sorted(values(committed)) == ["committed-0", "committed-1", "committed-2", "last"]
    everything = await face.read(face.consumer(topic))
    assert len(everything) == 7


async def test_an_open_transaction_is_not_read(face: Face) -> None:
    topic = await make_topic(face, partitions=1)
    await face.send(face.producer(), topic, b"before")
    producer = face.producer(transactional_id=new_name("writer"))
    await done(producer.begin())
    await face.send(producer, topic, b"inside")
    reader = face.consumer(topic, isolation_level="read_committed")
    assert values(await face.take(reader, 1)) == ["before"]
    assert await done(reader.poll(0.2)) == []
    await done(producer.commit())
    assert values(await face.take(reader, 1)) == ["inside"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_consuming_and_producing_in_one_transaction(face: Face, protocol: str) -> None:
    source, target = await make_topic(face, partitions=1), await make_topic(face, partitions=1)
    producer = face.producer()
    for number in range(20):
        await done(producer.send(source, str(number)))
    await done(producer.close())
    group = new_name("workers")
    consumer = face.consumer(source, group=group, group_protocol=protocol, enable_auto_commit=False)
    worker = face.producer(transactional_id=new_name("worker"))
    for _ in range(2):
        async with face.transaction(worker) as transaction:
            for message in await face.take(consumer, 10):
                await done(worker.send(target, f"done {message.value.decode()}"))
            await done(transaction.send_offsets(consumer))
    written = await face.read(face.consumer(target, isolation_level="read_committed"))
    assert values(written) == [f"done {number}" for number in range(20)]
    partition = TopicPartition(source, 0)
    offsets = await done(face.admin().list_group_offsets(group, require_stable=True))
    assert offsets[partition].offset == 20


async def test_a_second_producer_with_the_same_transactional_id_fences_the_first(
    face: Face, topic: str
) -> None:
    name = new_name("writer")
    old, new = face.producer(transactional_id=name), face.producer(transactional_id=name)
    async with face.transaction(old):
        await done(old.send(topic, "one"))
    await done(old.begin())
    async with face.transaction(new):
        await done(new.send(topic, "two"))
    with pytest.raises(errors.ProducerFenced):
        await write_and_commit(face, old, topic)
    committed = await face.read(face.consumer(topic, isolation_level="read_committed"))
    assert sorted(values(committed)) == ["one", "two"]
    with pytest.raises(errors.PenstockError):
        await done(old.begin())


# -- admin


async def test_topics_are_created_described_grown_and_deleted(face: Face) -> None:
    admin, name = face.admin(), new_name("administered")
    created = await done(admin.create_topic(name, 2, 1, {"retention.ms": "3600000"}))
    assert (created.partitions, created.replication_factor) == (2, 1)
    with pytest.raises(errors.TopicAlreadyExists):
        await done(admin.create_topic(name, 2, 1))
    await eventually(admin.list_topics, lambda listed: name in {each.name for each in listed})
    described = await done(admin.describe_topic(name))
    assert [(each.index, len(each.replicas), len(each.in_sync)) for each in described.partitions] == [
        (0, 1, 1),
        (1, 1, 1),
    ]
    assert described.topic_id == created.topic_id
    await done(admin.create_partitions({name: 4}))
    await eventually(lambda: admin.describe_topic(name), lambda described: len(described.partitions) == 4)
    await done(admin.delete_topic(name))
    await eventually(admin.list_topics, lambda listed: name not in {each.name for each in listed})
    with pytest.raises(errors.UnknownTopicOrPartition):
        await done(admin.describe_topic(name, timeout=2))


async def test_settings_of_a_topic_are_described_and_changed(face: Face, topic: str) -> None:
    admin, resource = face.admin(), ConfigResource.topic(topic)
    await done(admin.alter_config(resource, {"retention.ms": 60_000, "cleanup.policy": "compact"}))
    config = await eventually(
        lambda: admin.describe_config(resource), lambda config: config["retention.ms"].value == "60000"
    )
    assert config["cleanup.policy"].value == "compact"
    await done(admin.alter_config(resource, unset=["retention.ms"]))
    await eventually(
        lambda: admin.describe_config(resource), lambda config: config["retention.ms"].value == "604800000"
    )
    with pytest.raises(errors.InvalidConfig):
        await done(admin.alter_config(resource, {"retention.ms": "soon"}))


async def test_the_cluster_is_described(face: Face) -> None:
    cluster = await done(face.admin().describe_cluster())
    assert cluster.cluster_id
    assert [f"{broker.host}:{broker.port}" for broker in cluster.brokers] == [face.bootstrap]


async def test_offsets_are_listed_and_records_deleted(face: Face, topic: str) -> None:
    await write(face, topic, numbers(30))
    admin = face.admin()
    partition = TopicPartition(topic, 0)
    assert (await done(admin.list_offsets({partition: "latest"})))[partition].offset == 10
    assert await done(admin.delete_records({partition: 4})) == {partition: 4}
    assert (await done(admin.list_offsets({partition: "earliest"})))[partition].offset == 4
    assert values(await face.read(face.consumer(partition))) == numbers(30)[12::3]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_groups_are_listed_described_reset_and_deleted(face: Face, topic: str, protocol: str) -> None:
    await write(face, topic, numbers(30))
    admin, group = face.admin(), new_name("administered")
    consumer = face.consumer(topic, group=group, group_protocol=protocol, enable_auto_commit=False)
    await face.take(consumer, 30)
    await done(consumer.commit())
    listed = {each.group_id: each for each in await done(admin.list_groups())}
    assert listed[group].state == GroupState.STABLE
    described = await done(admin.describe_group(group))
    assert described.state == GroupState.STABLE
    assert len(described.members) == 1
    await done(consumer.close())
    partition = TopicPartition(topic, 1)
    assert (await done(admin.list_group_offsets(group)))[partition].offset == 10
    await eventually(lambda: admin.describe_group(group), lambda found: found.state == GroupState.EMPTY)
    await done(admin.alter_group_offsets(group, {partition: 8}))
    again = face.consumer(topic, group=group, group_protocol=protocol)
    assert values(await face.take(again, 2)) == ["25", "28"]
    await done(again.close())
    await eventually(lambda: admin.describe_group(group), lambda found: found.state == GroupState.EMPTY)
    await done(admin.delete_group(group))
    assert group not in {each.group_id for each in await done(admin.list_groups())}


async def test_transactions_are_listed_and_described(face: Face, topic: str) -> None:
    admin, name = face.admin(), new_name("writer")
    producer = face.producer(transactional_id=name)
    await done(producer.begin())
    await face.send(producer, topic, b"x", partition=0)
    listed = {each.transactional_id: each for each in await done(admin.list_transactions())}
    assert listed[name].state == TransactionState.ONGOING
    described = await done(admin.describe_transaction(name))
    assert set(described.partitions) == {TopicPartition(topic, 0)}
    states = await done(admin.describe_producers([TopicPartition(topic, 0)]))
    assert [each.producer_id for each in states[TopicPartition(topic, 0)]] == [described.producer_id]
    await done(producer.abort())


# -- errors


async def test_reading_an_unknown_topic_is_an_error(face: Face) -> None:
    consumer = face.consumer(new_name("nowhere"))
    with pytest.raises(errors.UnknownTopicOrPartition):
        await face.read(consumer, timeout=1)


async def test_an_invalid_topic_name_is_an_error(face: Face) -> None:
    with pytest.raises(errors.InvalidTopic):
        await done(face.admin().create_topic("no name!", 1, 1))
    with pytest.raises(errors.InvalidTopic):
        await face.send(face.producer(), "no name!", b"x")


async def test_using_a_closed_client_is_rejected(face: Face, topic: str) -> None:
    producer, consumer, admin = face.producer(), face.consumer(topic), face.admin()
    await face.send(producer, topic, b"x")
    for client in (producer, consumer, admin):
        await done(client.close())
        await done(client.close())
    with pytest.raises(errors.ClientClosed):
        await face.send(producer, topic, b"x")
    with pytest.raises(errors.ClientClosed):
        await done(consumer.poll(0.01))
    with pytest.raises(errors.ClientClosed):
        await done(admin.list_topics())
