"""The consumer on a real broker: what it reads, its positions, and its errors."""

from __future__ import annotations

import datetime
import gc
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition

from compat.client.reading import WAIT_SECONDS, take, values
from harness.admin import admin, create_topic, create_topics, new_name
from harness.brokers import Broker
from harness.waiting import wait_until
from harness.writing import write, write_transaction
from penstock import Consumer, Message, Producer, TopicPartition, errors

NUMBERS = [str(number) for number in range(100)]

Consume = Callable[..., Consumer]


@pytest.fixture
def consume(cluster: Broker) -> Iterator[Consume]:
    """Makes consumers of the shared broker, and closes them. None may leave a thread behind."""
    before = set(threading.enumerate())
    made: list[Consumer] = []

    def make(*topics: Any, **options: Any) -> Consumer:
        options.setdefault("bootstrap_servers", cluster.bootstrap)
        made.append(Consumer(*topics, **options))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()
    assert set(threading.enumerate()) <= before


def delete_records(bootstrap: str, topic: str, before_offset: int) -> None:
    client = admin(bootstrap)
    for future in client.delete_records([ConfluentPartition(topic, 0, before_offset)]).values():
        future.result(WAIT_SECONDS)


# Reading


def test_a_topic_is_read_from_its_beginning(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS, key="alice", headers=[("trace", b"1"), ("none", None)])

    first, *rest = take(consume(topic), 100)

    assert (first.topic, first.partition, first.offset, first.key, first.value) == (
        topic,
        0,
        0,
        b"alice",
        b"0",
    )
    assert first.headers == (("trace", b"1"), ("none", None))
    assert first.leader_epoch is not None
    assert first.time is not None
    assert abs(first.time - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(hours=1)
    assert [message.offset for message in rest] == list(range(1, 100))


def test_iteration_returns_messages_one_by_one(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders", partitions=3)
    for partition in range(3):
        write(cluster.bootstrap, topic, NUMBERS, partition=partition)
    consumer = consume(topic, max_poll_records=7)

    seen = []
    for message in consumer:
        seen.append(message)
        if len(seen) == 300:
            break

    for partition in range(3):
        assert values([each for each in seen if each.partition == partition]) == NUMBERS
    assert set(consumer.positions().values()) == {100}
    assert [consumer.lag(each) for each in consumer.assignment()] == [0, 0, 0]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(cluster: Broker, consume: Consume, codec: str) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    settings = {"compression.type": codec, "linger.ms": 100}
    write(cluster.bootstrap, topic, NUMBERS * 20, settings=settings)

    assert values(take(consume(topic), 2000)) == NUMBERS * 20


def test_records_without_key_or_value(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, [None, b""], key=None)

    assert [(each.key, each.value) for each in take(consume(topic), 2)] == [(None, None), (None, b"")]


def test_a_record_larger_than_all_limits_is_returned(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, [b"x" * 100_000, b"y" * 100_000])

    consumer = consume(topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)

    assert [len(each.value) for each in take(consumer, 2)] == [100_000, 100_000]


def test_records_written_while_the_consumer_waits_arrive_at_once(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    consumer = consume(topic, fetch_max_wait_ms=10_000)
    assert consumer.poll(0.3) == []

    write(cluster.bootstrap, topic, ["now"])

    assert values(take(consumer, 1)) == ["now"]


def test_new_partitions_are_noticed_and_read_from_their_beginning(cluster: Broker, consume: Consume) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = create_topic(cluster.bootstrap, "orders")
    consumer = consume(topic, metadata_max_age_ms=200, auto_offset_reset="latest")
    consumer.position(TopicPartition(topic, 0)) if consumer.assignment() else consumer.poll(0.5)
    client = admin(cluster.bootstrap)
    for future in client.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(WAIT_SECONDS)
    write(cluster.bootstrap, topic, ["new"], partition=1)

    assert values(take(consumer, 1)) == ["new"]


def test_topics_by_pattern(cluster: Broker, consume: Consume) -> None:
    stem = new_name("shop")
    create_topics(cluster.bootstrap, f"{stem}-orders", f"{stem}-bills", f"other-{stem}")
    for name in (f"{stem}-orders", f"{stem}-bills", f"other-{stem}"):
        write(cluster.bootstrap, name, [name])

    messages = take(consume(re.compile(f"{stem}-.*")), 2)

    assert sorted(values(messages)) == [f"{stem}-bills", f"{stem}-orders"]


# Transactions


def test_read_committed_returns_only_committed_transactions(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write_transaction(cluster.bootstrap, topic, ["a", "b"], is_commit=True)
    write_transaction(cluster.bootstrap, topic, ["c", "d"], is_commit=False)
    write(cluster.bootstrap, topic, ["e"])

    committed = consume(topic, isolation_level="read_committed")

    assert values(take(committed, 3)) == ["a", "b", "e"]
    assert values(take(consume(topic), 5)) == ["a", "b", "c", "d", "e"]
    table = consume(topic, isolation_level="read_committed").read().to_arrow()
    assert table.column("value").to_pylist() == [b"a", b"b", b"e"]


def test_the_position_passes_markers_at_the_end(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write_transaction(cluster.bootstrap, topic, ["a"], is_commit=True)
    consumer = consume(topic)
    take(consumer, 1)

    consumer.poll(0)

    assert consumer.position(TopicPartition(topic, 0)) == 2


# Positions


def test_seeking(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)
    partition = TopicPartition(topic, 0)
    consumer = consume(partition)
    consumer.seek(partition, 42)
    assert values(take(consumer, 1)) == ["42"]

    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 100
    consumer.seek_to_beginning()
    assert values(take(consumer, 2)) == ["0", "1"]

    for message in consumer:
        if message.value == b"5":
            consumer.seek(partition, 90)
        if message.value == b"91":
            break
        assert message.value in (b"2", b"3", b"4", b"5", b"90")


def test_starting_at_the_end(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)
    consumer = consume(TopicPartition(topic, 0), auto_offset_reset="latest")
    assert consumer.position(TopicPartition(topic, 0)) == 100

    write(cluster.bootstrap, topic, ["new"])

    assert values(take(consumer, 1)) == ["new"]


def test_starting_at_a_time(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    now_ms = time.time_ns() // 1_000_000
    write(cluster.bootstrap, topic, ["old"], timestamp=now_ms - 7_200_000)
    write(cluster.bootstrap, topic, ["young"], timestamp=now_ms - 60_000)
    partition = TopicPartition(topic, 0)

    assert values(take(consume(topic, auto_offset_reset="by_duration:PT1H"), 1)) == ["young"]
    assert consume(partition, auto_offset_reset="by_duration:PT1S").position(partition) == 2
    consumer = consume(partition)
    consumer.seek_to_time(datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1))
    assert values(take(consumer, 1)) == ["young"]
    found = consumer.offsets_for_times({partition: now_ms - 3_600_000})[partition]
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (1, now_ms - 60_000)
    assert consumer.offsets_for_times({partition: now_ms + 60_000}) == {partition: None}


def test_beginning_and_end_offsets(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders", partitions=2)
    write(cluster.bootstrap, topic, NUMBERS)
    delete_records(cluster.bootstrap, topic, 10)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = consume()

    assert consumer.beginning_offsets(first, second) == {first: 10, second: 0}
    assert consumer.end_offsets([first, second]) == {first: 100, second: 0}
    assert [each.index for each in consumer.partitions_for(topic)] == [0, 1]
    assert topic in consumer.topics()


def test_no_committed_offset_and_no_reset_policy_is_an_error(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    consumer = consume(topic, auto_offset_reset="none")

    for _ in range(2):
        with pytest.raises(errors.NoOffset, match=topic):
            take(consumer, 1)
    consumer.seek(TopicPartition(topic, 0), 0)
    assert consumer.poll(0.1) == []


def test_records_deleted_while_reading(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)
    delete_records(cluster.bootstrap, topic, 50)
    partition = TopicPartition(topic, 0)

    by_policy, without = consume(partition), consume(partition, auto_offset_reset="none")
    by_policy.seek(partition, 10)
    without.seek(partition, 10)

    assert values(take(by_policy, 1)) == ["50"]
    for _ in range(2):
        with pytest.raises(errors.OffsetOutOfRange, match="10"):
            take(without, 1)
    without.seek(partition, 99)
    assert values(take(without, 1)) == ["99"]


def test_paused_partitions_return_nothing_and_continue_at_their_position(
    cluster: Broker, consume: Consume
) -> None:
    topic = create_topic(cluster.bootstrap, "orders", partitions=2)
    for partition in range(2):
        write(cluster.bootstrap, topic, NUMBERS, partition=partition)
    consumer = consume(topic)
    paused = take(consumer, 1)[0]
    partition = TopicPartition(topic, paused.partition)

    consumer.pause(partition)
    assert consumer.paused() == {partition}
    others = take(consumer, 100)
    assert {each.partition for each in others} == {1 - paused.partition}
    assert consumer.poll(0.2) == []
    consumer.resume(partition)

    assert values(take(consumer, 99)) == NUMBERS[1:]


# Deserializers and interceptors


def test_deserializers_convert_keys_and_values(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, ['{"id": 1}', None], key="alice")

    messages = take(consume(topic, deserializer="json", key_deserializer="string"), 2)

    assert [(each.key, each.value) for each in messages] == [("alice", {"id": 1}), ("alice", None)]


def test_a_message_that_cannot_be_deserialized_is_named_and_can_be_skipped(
    cluster: Broker, consume: Consume
) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, ["1", "2", "x", "4"])
    partition = TopicPartition(topic, 0)
    consumer = consume(topic, deserializer=lambda data: int(data))

    assert [each.value for each in take(consumer, 2)] == [1, 2]
    for _ in range(2):
        with pytest.raises(errors.DeserializationFailed) as raised:
            take(consumer, 1)
        error = raised.value
        assert (error.topic, error.partition, error.offset, error.data) == (topic, 0, 2, b"x")
    assert consumer.position(partition) == 2
    consumer.seek(partition, 3)
    assert [each.value for each in take(consumer, 1)] == [4]

    consumer.seek_to_beginning()
    iterator = iter(consumer)
    assert [next(iterator).value, next(iterator).value] == [1, 2]
    with pytest.raises(errors.DeserializationFailed):
        next(iterator)


def test_interceptors_see_messages_before_the_application(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)

    class Odd:
        def on_consume(self, messages: list[Message]) -> list[Message]:
            return [message for message in messages if int(message.value) % 2]

    consumer = consume(topic, interceptor_classes=[Odd()])

    assert values(take(consumer, 3)) == ["1", "3", "5"]
    consumer.seek(TopicPartition(topic, 0), 50)
    assert next(iter(consumer)).value == b"51"
    assert consumer.position(TopicPartition(topic, 0)) == 52
    assert values(consumer.read(limit=4).to_messages()) == ["53", "55"]


# Bounded reads


def test_a_read_ends_at_the_end(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders", partitions=2)
    for partition in range(2):
        write(cluster.bootstrap, topic, NUMBERS, partition=partition, key="k", headers=[("h", b"1")])
    consumer = consume(topic)

    table = consumer.read(until="end").to_arrow()

    table.validate(full=True)
    assert table.num_rows == 200
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    rows = sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    assert [row["value"].decode() for row in rows] == NUMBERS * 2
    assert rows[0]["topic"] == topic
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}]
    assert consumer.read().to_arrow().num_rows == 0
    write(cluster.bootstrap, topic, ["new"])
    assert values(consumer.read().to_messages()) == ["new"]


@pytest.mark.parametrize("form", ["to_messages", "to_arrow"])
def test_a_read_of_more_than_memory_holds_ends(cluster: Broker, consume: Consume, form: str) -> None:
    """Records beyond the partitions' end offsets filled fetch.max.bytes, and nothing was fetched any more."""
    topic = create_topic(cluster.bootstrap, "large", partitions=10)
    with Producer(cluster.bootstrap) as producer:
        for number in range(1000):
            producer.send(topic, bytes(1000), partition=number % 10)

    consumer = consume(topic, fetch_max_bytes=200_000)

    assert len(getattr(consumer.read(until="end"), form)()) == 1000


def test_a_read_of_nothing_returns_an_empty_table(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")

    assert consume(topic).read().to_arrow().num_rows == 0
    assert consume(topic).read().to_messages() == []
    assert list(consume(topic).read(headers=False)) == []


def test_a_read_ends_at_an_offset_a_time_or_a_limit(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    partition = TopicPartition(topic, 0)
    for index, value in enumerate("abcdef"):
        write(cluster.bootstrap, topic, [value], timestamp=1_700_000_000_000 + index)
    consumer = consume(partition)

    assert values(consumer.read(until={partition: 2}).to_messages()) == ["a", "b"]
    assert consumer.read(until=1_700_000_000_003).to_arrow().column("value").to_pylist() == [b"c"]
    assert consumer.read(limit=1).to_arrow().column("value").to_pylist() == [b"d"]
    assert values(take(consumer, 2)) == ["e", "f"]


def test_a_read_goes_into_pandas(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)

    frame = consume(topic).read(headers=False).to_pandas()

    assert list(frame["offset"]) == list(range(100))


def test_a_read_can_be_used_once(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    reading = consume(topic).read()
    reading.to_arrow()

    with pytest.raises(errors.IllegalState, match="used already"):
        reading.to_arrow()


def test_a_read_without_data_times_out(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    partition = TopicPartition(topic, 0)

    with pytest.raises(errors.TimedOut, match="no data came"):
        consume(partition).read(until={partition: 5}, timeout=0.3).to_arrow()


def test_a_read_that_was_left_early_continues_there(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS, settings={"linger.ms": 0})
    consumer = consume(topic)
    partition = TopicPartition(topic, 0)

    for batch in consumer.read(until={partition: 40}) if consumer.assignment() else consumer.read(limit=40):
        assert batch.num_rows == 40
        break

    assert values(take(consumer, 1)) == ["40"]


# Misuse


def test_reading_an_unknown_topic_is_an_error_and_does_not_create_it(
    cluster: Broker, consume: Consume
) -> None:
    """The consumer created the topic and waited forever; read() returned an empty table."""
    topic = new_name("nowhere")
    partition = TopicPartition(topic, 0)

    for call in (
        lambda: take(consume(topic), 1),
        lambda: take(consume(partition), 1),
        lambda: consume(topic).read(until="end").to_arrow(),
        lambda: consume(topic).read(until="end", timeout=1).to_arrow(),
        lambda: consume(topic, group=new_name("readers")).read(until="end").to_arrow(),
        lambda: consume().partitions_for(topic),
        lambda: consume().end_offsets(partition),
        lambda: consume().offsets_for_times({partition: 0}),
    ):
        with pytest.raises(errors.UnknownTopicOrPartition, match=topic):
            call()
    assert topic not in consume().topics()


def test_reading_creates_a_topic_only_if_configured(cluster: Broker, consume: Consume) -> None:
    topic = new_name("made")

    assert consume(topic, allow_auto_create_topics=True).read(until="end").to_messages() == []
    assert topic in consume().topics()


def test_an_unknown_partition_is_named(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")

    with pytest.raises(errors.UnknownTopicOrPartition, match=f"{topic}-7.*1 partition"):
        take(consume(TopicPartition(topic, 7)), 1)
    with pytest.raises(errors.UnknownTopicOrPartition, match="1 partition"):
        consume().end_offsets(TopicPartition(topic, 7))


def test_an_unreachable_broker_is_an_error_with_its_address() -> None:
    with Consumer("orders", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=500) as consumer:
        with pytest.raises(errors.NoBrokersAvailable, match=r"127\.0\.0\.1:1"):
            take(consumer, 1)
        with pytest.raises(errors.NoBrokersAvailable, match=r"127\.0\.0\.1:1"):
            consumer.partitions_for("orders")


def test_using_a_closed_consumer_is_an_error(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)
    consumer = consume(topic)
    take(consumer, 1)
    iterator = iter(consumer)
    next(iterator)
    consumer.close()
    consumer.close()

    for use in (consumer.poll, consumer.positions, consumer.unsubscribe, consumer.seek_to_end):
        with pytest.raises(errors.ClientClosed):
            use()
    with pytest.raises(errors.ClientClosed):
        iter(consumer)
    never_used = consume(topic)
    never_used.close()
    with pytest.raises(errors.ClientClosed):
        never_used.poll()


def test_reading_without_a_subscription_is_an_error(consume: Consume) -> None:
    with pytest.raises(errors.IllegalState, match="nothing to read"):
        consume().poll(0)


def test_topics_and_partitions_cannot_be_mixed(consume: Consume) -> None:
    consumer = consume("orders")
    with pytest.raises(errors.IllegalState, match="unsubscribe"):
        consumer.assign([TopicPartition("orders", 0)])
    consumer.unsubscribe()
    consumer.assign([TopicPartition("orders", 0)])
    with pytest.raises(errors.IllegalState, match="unsubscribe"):
        consumer.subscribe("orders")
    with pytest.raises(errors.IllegalState, match="not assigned"):
        consumer.seek(TopicPartition("bills", 0), 5)
    with pytest.raises(errors.BadArgument):
        consume("orders", TopicPartition("orders", 0))


def test_commits_need_a_group(consume: Consume) -> None:
    consumer = consume("orders")

    for use in (consumer.commit, consumer.committed, consumer.group_metadata, consumer.commit_async):
        with pytest.raises(errors.IllegalState, match="group"):
            use()


def test_use_by_two_threads_at_once_is_rejected(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    consumer = consume(topic)
    is_polling = threading.Event()
    found: list[Any] = []

    def poll() -> None:
        is_polling.set()
        found.append(consumer.poll(WAIT_SECONDS))

    thread = threading.Thread(target=poll)
    thread.start()
    is_polling.wait()
    try:
        wait_until(lambda: consumer.assignment() != frozenset(), "partitions are assigned")
        with pytest.raises(errors.ConcurrentUse):
            consumer.poll(0)
    finally:
        write(cluster.bootstrap, topic, ["x"])
        thread.join(WAIT_SECONDS)
    assert values(found[0]) == ["x"]


def test_closing_from_another_thread_ends_an_iteration(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, ["x"])
    consumer = consume(topic)
    seen: list[Message] = []
    thread = threading.Thread(target=lambda: seen.extend(consumer))
    thread.start()
    wait_until(lambda: bool(consumer.assignment()), "partitions are assigned")

    consumer.close()

    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_closing_in_a_signal_handler_ends_an_iteration(cluster: Broker, consume: Consume) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    consumer = consume(topic)

    def interrupt() -> None:
        wait_until(lambda: bool(consumer.assignment()), "partitions are assigned")
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda number, frame: consumer.close())
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert list(consumer) == []
    finally:
        thread.join(WAIT_SECONDS)
        signal.signal(signal.SIGUSR1, before)


def test_a_garbage_collected_consumer_leaves_no_thread_behind(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "orders")
    write(cluster.bootstrap, topic, NUMBERS)
    before = set(threading.enumerate())

    assert Consumer(topic, bootstrap_servers=cluster.bootstrap).read().to_arrow().num_rows == 100
    for message in Consumer(topic, bootstrap_servers=cluster.bootstrap):
        assert message.offset == 0
        break

    gc.collect()
    wait_until(lambda: set(threading.enumerate()) <= before, "the threads have ended")


def test_another_subscription_replaces_the_first(cluster: Broker, consume: Consume) -> None:
    first, second = create_topic(cluster.bootstrap, "orders"), create_topic(cluster.bootstrap, "bills")
    write(cluster.bootstrap, first, NUMBERS)
    write(cluster.bootstrap, second, ["x"])
    consumer = consume(first, second)
    take(consumer, 101)

    consumer.subscribe([second])
    write(cluster.bootstrap, first, ["not wanted"])
    write(cluster.bootstrap, second, ["y"])

    assert values(take(consumer, 1)) == ["y"]
    assert consumer.assignment() == {TopicPartition(second, 0)}
    assert consumer.subscription() == {second}


# Broker failures


def test_reading_continues_after_the_broker_was_killed_and_restarted(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, "orders", config={"flush.messages": "1"})
    write(broker.bootstrap, topic, NUMBERS[:50])
    with Consumer(topic, bootstrap_servers=broker.bootstrap) as consumer:
        seen = values(take(consumer, 50))
        broker.kill()
        assert consumer.poll(0.2) == []
        broker.start()
        write(broker.bootstrap, topic, NUMBERS[50:])
        seen += values(take(consumer, 50))
    assert seen == NUMBERS
