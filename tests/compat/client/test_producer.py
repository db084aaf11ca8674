"""The producer on a real broker, and what other clients read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from harness.admin import create_topic, new_name
from harness.brokers import Broker, free_port
from harness.waiting import wait_until
from penstock import Consumer, Producer, TopicPartition, aio, errors
from penstock.client.group.types import Offset

WAIT_SECONDS = 60.0

Produce = Callable[..., Producer]


@pytest.fixture
def produce(cluster: Broker) -> Iterator[Produce]:
    """Makes producers of the shared broker, and closes them. None may leave a thread behind."""
    before = set(threading.enumerate())
    made: list[Producer] = []

    def make(**options: Any) -> Producer:
        options.setdefault("bootstrap_servers", cluster.bootstrap)
        made.append(Producer(**options))
        return made[-1]

    yield make
    for producer in made:
        with contextlib.suppress(errors.PenstockError):
            producer.close()
    assert set(threading.enumerate()) <= before


def read(bootstrap: str, topic: str, count: int, *, partitions: int = 1, **settings: Any) -> list[Any]:
    """So many messages of a topic, read by confluent-kafka."""
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": new_name("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **settings,
        }
    )
    consumer.assign([ConfluentPartition(topic, index, 0) for index in range(partitions)])
    messages: list[Any] = []
    ends = 0
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while len(messages) < count or ends < partitions:
            assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                ends += 1
            else:
                messages.append(message)
    finally:
        consumer.close()
    return messages


def values(messages: list[Any]) -> list[str]:
    return [message.value().decode() for message in messages]


# Written records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_other_clients_read_every_field_of_a_record(cluster: Broker, produce: Produce, codec: str) -> None:
    topic = create_topic(cluster.bootstrap, "whole")
    producer = produce(compression_type=codec)
    producer.send(
        topic, "väl", key=b"k", headers={"trace": b"1", "text": "x", "none": None}, timestamp_ms=1234
    )
    tombstone = producer.send(topic, key="gone")
    for number in range(1000):
        producer.send(topic, f"{number}" * 20)
    producer.flush()

    messages = read(cluster.bootstrap, topic, 1002)
    first, second, *rest = messages
    assert (first.key(), first.value().decode(), first.timestamp()[1]) == (b"k", "väl", 1234)
    assert first.headers() == [("trace", b"1"), ("text", b"x"), ("none", None)]
    assert (second.key(), second.value()) == (b"gone", None)
    assert values(rest) == [f"{number}" * 20 for number in range(1000)]
    assert tombstone.result() == (topic, 0, 1, second.timestamp()[1])


def test_keys_go_to_the_same_partitions_as_with_other_clients(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "keys", partitions=7)
    keys = [f"key-{number}" for number in range(100)]
    producer = produce()
    ours = {key: producer.send(topic, "v", key=key).result(WAIT_SECONDS).partition for key in keys[:20]}
    receipts = {key: producer.send(topic, "v", key=key) for key in keys}
    producer.flush()
    ours |= {key: receipt.result().partition for key, receipt in receipts.items()}

    theirs: dict[str, int] = {}
    other = ConfluentProducer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        other.produce(
            topic,
            b"v",
            key,
            on_delivery=lambda _, message, key=key: theirs.update({key: message.partition()}),
        )
    other.flush()
    assert ours == theirs


def test_records_without_a_key_are_spread_batch_by_batch(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "spread", partitions=3)
    producer = produce(batch_size=2000, linger_ms=0)
    receipts = [producer.send(topic, "x" * 100) for _ in range(3000)]
    producer.flush()

    counts = [0, 0, 0]
    for receipt in receipts:
        counts[receipt.result().partition] += 1
    assert min(counts) > 300


def test_serializers_convert_to_bytes(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "typed")
    producer = produce(serializer="json", key_serializer=int)
    producer.send(topic, {"id": 1}, key=7)
    producer.flush()

    (message,) = read(cluster.bootstrap, topic, 1)
    assert (message.key(), message.value()) == ((7).to_bytes(8, "big"), b'{"id":1}')


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks_are_as_configured(cluster: Broker, produce: Produce, acks: Any) -> None:
    topic = create_topic(cluster.bootstrap, "acks")
    producer = produce(acks=acks)
    receipts = [producer.send(topic, str(number)) for number in range(100)]
    producer.flush()

    assert values(read(cluster.bootstrap, topic, 100)) == [str(number) for number in range(100)]
    assert receipts[5].result().offset == (-1 if acks == 0 else 5)


def test_batches_too_large_for_the_topic_are_split(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "small", config={"max.message.bytes": "2000"})
    producer = produce()
    receipts = [producer.send(topic, f"{number:0100}") for number in range(300)]
    too_large = producer.send(topic, "x" * 3000)
    with pytest.raises(errors.MessageTooLarge):
        too_large.result(WAIT_SECONDS)
    producer.flush()

    assert [receipt.result().offset for receipt in receipts] == list(range(300))
    assert values(read(cluster.bootstrap, topic, 300)) == [f"{number:0100}" for number in range(300)]


def test_many_threads_share_one_producer(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "threads", partitions=4)
    producer = produce(batch_size=5000)
    counts = 5000

    def send(number: int) -> None:
        for count in range(counts):
            producer.send(topic, f"{count}", partition=number)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush()

    found: dict[int, list[str]] = {number: [] for number in range(4)}
    for message in read(cluster.bootstrap, topic, 4 * counts, partitions=4):
        found[message.partition()].append(message.value().decode())
    assert found == {number: [str(count) for count in range(counts)] for number in range(4)}


async def test_the_asyncio_producer_writes_the_same(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "aio")
    async with aio.Producer(cluster.bootstrap, batch_size=5000) as producer:
        receipts = [await producer.send(topic, str(number)) for number in range(5000)]
        deliveries = await asyncio.gather(*[_delivery(receipt) for receipt in receipts])
        with pytest.raises(errors.IllegalState, match="await"):
            (await producer.send(topic, "last")).result()
        assert len(await producer.partitions_for(topic)) == 1

    assert [delivery.offset for delivery in deliveries] == list(range(5000))
    assert values(read(cluster.bootstrap, topic, 5001))[:-1] == [str(number) for number in range(5000)]


async def _delivery(receipt: Any) -> Any:
    return await receipt


# Errors


def fail_after(*done: Any) -> None:
    """An application's own error."""
    raise KeyError("what counts")


def test_an_unknown_topic_is_reported(tmp_path: Path, make_broker: Callable[..., Broker]) -> None:
    broker = make_broker(tmp_path, settings={"auto.create.topics.enable": "false"})
    broker.start()
    try:
        with Producer(broker.bootstrap, max_block_ms=1500) as producer:
            with pytest.raises(errors.UnknownTopicOrPartition, match="nowhere"):
                producer.send("nowhere", "a")
            with pytest.raises(errors.InvalidTopic):
                producer.send("no name at all!", "a")
    finally:
        broker.close()


def test_unreachable_brokers_are_reported_with_their_addresses() -> None:
    before = set(threading.enumerate())
    port = free_port()
    with (
        Producer(f"127.0.0.1:{port}", max_block_ms=500) as producer,
        pytest.raises(errors.NoBrokersAvailable, match=f"127.0.0.1:{port}"),
    ):
        producer.send("orders", "a")
    assert set(threading.enumerate()) <= before


def test_a_closed_producer_rejects_records_and_has_no_thread(cluster: Broker) -> None:
    before = set(threading.enumerate())
    producer = Producer(cluster.bootstrap)
    assert set(threading.enumerate()) <= before, "a constructor opens nothing"
    topic = create_topic(cluster.bootstrap, "closed")
    receipt = producer.send(topic, "a")
    producer.close()
    producer.close()

    assert set(threading.enumerate()) <= before
    assert receipt.result().offset == 0
    for call in (lambda: producer.send(topic, "b"), producer.flush, producer.begin, producer.__enter__):
        with pytest.raises(errors.ClientClosed):
            call()


def send_until_full(producer: Producer, topic: str) -> int:
    """How many records were accepted."""
    for count in range(1000):
        try:
            producer.send(topic, "x" * 1000)
        except errors.BufferFull:
            return count
    raise AssertionError("the buffer never was full")


def test_a_full_buffer_is_reported_while_the_broker_is_stopped(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, "full")
    with Producer(
        broker.bootstrap, buffer_memory=100_000, batch_size=10_000, max_block_ms=500, linger_ms=0
    ) as producer:
        producer.send(topic, "warm").result(WAIT_SECONDS)
        assert broker.process is not None
        process = psutil.Process(broker.process.pid)
        process.suspend()
        try:
            sent = send_until_full(producer, topic)
            with pytest.raises(errors.TimedOut):
                producer.flush(timeout=0.2)
        finally:
            process.resume()
        producer.flush(timeout=WAIT_SECONDS)
        assert 50 < sent < 100
    assert len(read(broker.bootstrap, topic, sent + 1)) == sent + 1


def test_failures_that_were_not_checked_are_raised_at_the_end(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "compact", config={"cleanup.policy": "compact"})

    with pytest.raises(errors.InvalidRecord), Producer(cluster.bootstrap) as producer:
        producer.send(topic, "a record without a key")
    with pytest.raises(KeyError), Producer(cluster.bootstrap) as producer:
        fail_after(producer.send(topic, "a record without a key"))


def test_a_callback_must_not_wait_for_a_receipt(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "callbacks")
    producer = produce()
    results: list[Any] = []

    def callback(receipt: Any) -> None:
        results.append(receipt.result().offset)
        later = producer.send(topic, "b")
        try:
            later.result()
        except errors.IllegalState as error:
            results.append(error)

    producer.send(topic, "a").add_done_callback(callback)
    producer.flush()
    assert results[0] == 0
    assert isinstance(results[1], errors.IllegalState)


def test_a_callback_must_not_close_its_producer_which_stays_usable(cluster: Broker, produce: Produce) -> None:
    """It was considered closed, although its thread ran on: `close` did nothing more, and later records were lost."""
    topic = create_topic(cluster.bootstrap, "closing")
    producer = produce()
    results: list[Exception | None] = []

    def callback(receipt: Any) -> None:
        try:
            producer.close()
        except errors.IllegalState as error:
            results.append(error)

    producer.send(topic, "a").add_done_callback(callback)
    producer.flush()
    receipt = producer.send(topic, "b")
    producer.close()

    assert "callback" in str(results[0])
    assert receipt.result().offset == 1
    with pytest.raises(errors.ClientClosed):
        producer.send(topic, "c")


def test_a_forked_child_must_not_use_its_parents_producer(cluster: Broker, produce: Produce) -> None:
    topic = create_topic(cluster.bootstrap, "forked")
    producer = produce(linger_ms=1000)
    receipt = producer.send(topic, "a")
    child = os.fork()
    if child == 0:  # never return to the test from here
        status = 1
        with contextlib.suppress(BaseException):
            for use in (lambda: producer.send(topic, "b"), lambda: receipt.result(timeout=30)):
                with pytest.raises(errors.UsedAfterFork):
                    use()
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    producer.flush()
    assert values(read(cluster.bootstrap, topic, 1)) == ["a"]


def test_each_record_is_there_once_and_in_order_after_the_broker_was_killed_and_restarted(
    tmp_path: Path, make_broker: Callable[..., Broker]
) -> None:
    # A KRaft broker that was killed registers again only after its old session has expired.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings=session)
    broker.start()
    try:
        topic = create_topic(broker.bootstrap, "killed")
        receipts = []
        with Producer(broker.bootstrap, batch_size=2000, linger_ms=0) as producer:
            for part in range(3):
                for number in range(2000):
                    receipts.append(producer.send(topic, str(2000 * part + number)))
                    if part and number == 1000:
                        broker.kill()
                        broker.start()
            producer.flush(timeout=WAIT_SECONDS)
            assert [receipt.result().offset for receipt in receipts] == list(range(6000))
        assert values(read(broker.bootstrap, topic, 6000)) == [str(number) for number in range(6000)]
    finally:
        broker.close()


# Transactions


@pytest.fixture
def transactional(transaction_cluster: Broker) -> Iterator[Produce]:
    made: list[Producer] = []

    def make(name: str, **options: Any) -> Producer:
        made.append(Producer(transaction_cluster.bootstrap, transactional_id=name, **options))
        return made[-1]

    yield make
    for producer in made:
        with contextlib.suppress(errors.PenstockError):
            producer.close()


def test_only_committed_records_are_read(transaction_cluster: Broker, transactional: Produce) -> None:
    topic = create_topic(transaction_cluster.bootstrap, "transactions", partitions=2)
    producer = transactional(new_name("writer"))
    for number in range(10):
        with contextlib.suppress(KeyError), producer.transaction():
            for partition in range(2):
                producer.send(topic, f"{number}", partition=partition)
            if number % 3 == 2:
                producer.flush()
                raise KeyError
    producer.begin()
    producer.send(topic, "explicit", partition=0)
    producer.commit()
    producer.begin()
    producer.send(topic, "aborted", partition=0)
    producer.abort()
    producer.begin()
    producer.commit()

    committed = [str(number) for number in range(10) if number % 3 != 2]
    read_committed = {"isolation.level": "read_committed", "partitions": 2}
    messages = read(transaction_cluster.bootstrap, topic, 2 * len(committed) + 1, **read_committed)
    by_partition: dict[int, list[str]] = {0: [], 1: []}
    for message in messages:
        by_partition[message.partition()].append(message.value().decode())
    assert by_partition == {0: [*committed, "explicit"], 1: committed}


def test_sending_outside_of_a_transaction_is_rejected(transactional: Produce) -> None:
    producer = transactional(new_name("writer"))
    with pytest.raises(errors.IllegalState, match="between begin"):
        producer.send("orders", "a")
    with producer.transaction(), pytest.raises(errors.IllegalState, match="cannot begin"):
        producer.begin()
    for call in (producer.commit, producer.abort, lambda: producer.send("orders", "a")):
        with pytest.raises(errors.IllegalState):
            call()


def test_transactions_need_a_transactional_id(produce: Produce) -> None:
    with pytest.raises(errors.IllegalState, match=r"transactional\.id"):
        produce().begin()


def test_a_newer_producer_fences_the_older_one(transaction_cluster: Broker, transactional: Produce) -> None:
    topic = create_topic(transaction_cluster.bootstrap, "fenced")
    name = new_name("writer")
    old, new = transactional(name), transactional(name)
    old.begin()
    old.send(topic, "left open").result(WAIT_SECONDS)
    new.begin()
    new.send(topic, "new")
    new.commit()

    with pytest.raises(errors.ProducerFenced):
        old.send(topic, "too late").result(WAIT_SECONDS)
    with pytest.raises(errors.ProducerFenced):
        old.abort()
    with pytest.raises(errors.ProducerFenced):
        old.begin()
    committed = read(transaction_cluster.bootstrap, topic, 1, **{"isolation.level": "read_committed"})
    assert values(committed) == ["new"]


def test_offsets_are_committed_with_the_transaction(
    transaction_cluster: Broker, transactional: Produce
) -> None:
    source = create_topic(transaction_cluster.bootstrap, "source")
    target = create_topic(transaction_cluster.bootstrap, "target")
    group = new_name("transformer")
    with Producer(transaction_cluster.bootstrap) as writer:
        for number in range(10):
            writer.send(source, str(number))
    producer = transactional(new_name("writer"))
    with Consumer(
        source,
        bootstrap_servers=transaction_cluster.bootstrap,
        group=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        first = next(iter(consumer))
        with pytest.raises(KeyError), producer.transaction() as transaction:
            fail_after(producer.send(target, first.value), transaction.send_offsets(consumer))
        assert consumer.committed() == {}
        with producer.transaction() as transaction:
            producer.send(target, first.value)
            transaction.send_offsets({TopicPartition(source, 0): 1}, consumer.group_metadata())
        # A coordinator responds before it has sent the end of the transaction to the group.
        wait_until(
            lambda: consumer.committed() == {TopicPartition(source, 0): Offset(1)}, "the commit is seen"
        )
        stale = consumer.group_metadata()
    producer.begin()
    producer.send(target, "no member any more")
    with pytest.raises(errors.PenstockError):
        producer.send_offsets({TopicPartition(source, 0): 2}, stale)
    producer.abort()

    settings = {"isolation.level": "read_committed"}
    assert values(read(transaction_cluster.bootstrap, target, 1, **settings)) == ["0"]


READING: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
}


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_loop_that_continues_after_an_abort_skips_nothing(
    transaction_cluster: Broker, transactional: Produce, reset: str
) -> None:
    """The consumer stayed after the messages of the aborted transaction, so they were never processed."""
    source = create_topic(transaction_cluster.bootstrap, "source", partitions=2)
    target = create_topic(transaction_cluster.bootstrap, "target", partitions=1)
    producer = transactional(new_name("writer"))
    with Consumer(
        source,
        bootstrap_servers=transaction_cluster.bootstrap,
        group=new_name("transformer"),
        **{**READING, "auto_offset_reset": reset},
    ) as consumer:
        while len(consumer.positions()) < 2:  # with `latest`, earlier records are not read
            consumer.poll(0.1)
        with Producer(transaction_cluster.bootstrap) as writer:
            for number in range(100):
                writer.send(source, str(number), partition=number % 2)
        done, failures = 0, 0
        while done < 100:
            messages = consumer.poll(WAIT_SECONDS, max_records=10)
            try:
                with producer.transaction(consumer=consumer):
                    for message in messages:
                        producer.send(target, message.value)
                    if failures < 3 and done == 20 * failures:
                        failures += 1
                        raise KeyError("in the midst of a transaction")
            except KeyError:
                continue
            done += len(messages)

    settings = {"isolation.level": "read_committed"}
    written = values(read(transaction_cluster.bootstrap, target, 100, **settings))
    assert failures == 3
    assert sorted(written, key=int) == [str(number) for number in range(100)]


async def test_an_async_loop_that_continues_after_an_abort_skips_nothing(transaction_cluster: Broker) -> None:
    source = create_topic(transaction_cluster.bootstrap, "source", partitions=2)
    target = create_topic(transaction_cluster.bootstrap, "target", partitions=1)
    async with (
        aio.Producer(transaction_cluster.bootstrap, transactional_id=new_name("writer")) as producer,
        aio.Producer(transaction_cluster.bootstrap) as writer,
        aio.Consumer(
            source, bootstrap_servers=transaction_cluster.bootstrap, group=new_name("group"), **READING
        ) as consumer,
    ):
        for number in range(30):
            await writer.send(source, str(number), partition=number % 2)
        done, failures = 0, 0
        while done < 30:
            messages = await consumer.poll(WAIT_SECONDS, max_records=10)
            try:
                async with producer.transaction(consumer=consumer):
                    for message in messages:
                        await producer.send(target, message.value)
                    if failures < 2:
                        failures += 1
                        raise KeyError("in the midst of a transaction")
            except KeyError:
                continue
            done += len(messages)

    settings = {"isolation.level": "read_committed"}
    written = values(read(transaction_cluster.bootstrap, target, 30, **settings))
    assert sorted(written, key=int) == [str(number) for number in range(30)]


def test_a_consumer_that_cannot_be_part_of_a_transaction_is_rejected(transactional: Produce) -> None:
    producer = transactional(new_name("writer"))
    for consumer, message in (
        (Consumer("orders", group="g"), "enable_auto_commit=False"),
        (Consumer("orders"), r"group\.id"),
        ("orders", "must be a Consumer"),
    ):
        with pytest.raises(errors.BadArgument, match=message), producer.transaction(consumer=consumer):  # type: ignore[arg-type]
            pass


async def test_async_transactions(transaction_cluster: Broker) -> None:
    topic = create_topic(transaction_cluster.bootstrap, "aio-transactions")
    name = new_name("writer")
    async with aio.Producer(transaction_cluster.bootstrap, transactional_id=name) as producer:
        async with producer.transaction():
            await producer.send(topic, "a")
        with contextlib.suppress(KeyError):
            async with producer.transaction() as transaction:
                await producer.send(topic, "b")
                await transaction.send_offsets({TopicPartition(topic, 0): 1}, new_name("group"))
                fail_after()
        await producer.begin()
        await producer.send(topic, "c")
        await producer.commit()

    settings = {"isolation.level": "read_committed"}
    assert values(read(transaction_cluster.bootstrap, topic, 2, **settings)) == ["a", "c"]
