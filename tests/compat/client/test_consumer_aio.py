"""The asyncio consumer on a real broker: where it differs from the sync one, and that it does not elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from compat.client.reading import values
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.writing import write
from penstock import Message, TopicPartition, errors
from penstock.aio import Consumer

NUMBERS = [str(number) for number in range(100)]
WAIT_SECONDS = 30.0

Consume = Callable[..., Consumer]


@pytest.fixture
async def consume(group_cluster: Broker) -> AsyncIterator[Consume]:
    """Makes consumers, and closes them. None may leave a task behind."""
    before = asyncio.all_tasks()
    made: list[Consumer] = []

    def make(*topics: Any, **options: Any) -> Consumer:
        made.append(Consumer(*topics, bootstrap_servers=group_cluster.bootstrap, **options))
        return made[-1]

    yield make
    for consumer in made:
        await consumer.close()
    assert asyncio.all_tasks() - before <= {asyncio.current_task()}


async def take(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(messages) < count:
            messages += await consumer.poll(0.1, max_records=count - len(messages))
    return messages


async def test_polls_and_iteration_return_the_same_messages(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders", partitions=2)
    for partition in range(2):
        write(group_cluster.bootstrap, topic, NUMBERS, partition=partition)
    polled = await take(consume(topic), 200)

    iterated = []
    consumer = consume(topic, max_poll_records=7)
    async for message in consumer:
        iterated.append(message)
        if len(iterated) == 200:
            break

    assert sorted(polled, key=lambda each: (each.partition, each.offset)) == sorted(
        iterated, key=lambda each: (each.partition, each.offset)
    )
    assert set(consumer.positions().values()) == {100}


async def test_other_tasks_run_while_messages_are_returned(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    consumer = consume(topic, max_poll_records=10)
    await take(consumer, 1)
    before = turns
    async for message in consumer:
        if message.offset == 99:
            break
    other.cancel()

    assert turns >= before + 9


async def test_a_commit_in_the_loop_commits_exactly_the_returned_messages(
    group_cluster: Broker, consume: Consume
) -> None:
    topic, group = create_topic(group_cluster.bootstrap, "orders"), new_name("readers")
    write(group_cluster.bootstrap, topic, NUMBERS)
    options = {"group": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    async with consume(topic, **options) as consumer:
        async for message in consumer:
            if message.offset == 17:
                await consumer.commit()
            if message.offset == 20:
                break
    async with consume(topic, **options) as consumer:
        assert values(await take(consumer, 1)) == ["18"]


async def test_listeners_may_be_coroutines(group_cluster: Broker, consume: Consume) -> None:
    topic, group = create_topic(group_cluster.bootstrap, "orders"), new_name("readers")
    write(group_cluster.bootstrap, topic, NUMBERS)
    consumer = consume(group=group, enable_auto_commit=False)
    calls: list[str] = []

    class Listener:
        async def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
            calls.append("assigned")
            for partition in partitions:
                await asyncio.sleep(0)
                consumer.seek(partition, 90)

        async def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            calls.append("revoked")
            await consumer.commit()

    consumer.subscribe(topic, listener=Listener())  # type: ignore[arg-type]
    assert values(await take(consumer, 1)) == ["90"]
    await consumer.close()

    assert calls == ["assigned", "revoked"]
    async with consume(topic, group=group) as again:
        assert values(await take(again, 1)) == ["91"]


async def test_bounded_reads(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders", partitions=2)
    for partition in range(2):
        write(group_cluster.bootstrap, topic, NUMBERS, partition=partition)
    consumer = consume(topic)

    batches = [batch async for batch in consumer.read(limit=150)]
    assert sum(batch.num_rows for batch in batches) == 150
    assert (await consumer.read().to_arrow()).num_rows == 50
    consumer.seek_to_beginning()
    assert len(await consumer.read().to_messages()) == 200
    assert len(await consumer.read().to_pandas()) == 0
    with pytest.raises(errors.TimedOut):
        await consumer.read(until={TopicPartition(topic, 0): 500}, timeout=0.1).to_arrow()


async def test_cluster_queries(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    write(group_cluster.bootstrap, topic, NUMBERS, timestamp=1_700_000_000_000)
    partition = TopicPartition(topic, 0)
    consumer = consume(partition, group=new_name("readers"))

    assert await consumer.beginning_offsets() == {partition: 0}
    assert await consumer.end_offsets() == {partition: 100}
    assert await consumer.offsets_for_times({partition: 1_800_000_000_000}) == {partition: None}
    assert await consumer.committed() == {}
    assert len(await consumer.partitions_for(topic)) == 1
    assert topic in await consumer.topics()
    consumer.seek_to_end()
    assert await consumer.position(partition) == 100
    consumer.pause(partition)
    assert consumer.paused() == consumer.assignment() == {partition}
    consumer.resume(partition)
    assert consumer.lag(partition) in (None, 0)


async def test_use_by_two_tasks_at_once_is_rejected(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    consumer = consume(topic)
    polling = asyncio.create_task(consumer.poll(WAIT_SECONDS))
    await asyncio.sleep(0)

    with pytest.raises(errors.ConcurrentUse):
        await consumer.poll(0)

    write(group_cluster.bootstrap, topic, ["x"])
    assert values(await polling) == ["x"]


async def test_closing_from_another_task_ends_an_iteration(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    consumer = consume(topic)

    async def read() -> list[Message]:
        return [message async for message in consumer]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await consumer.close()

    assert await asyncio.wait_for(reading, WAIT_SECONDS) == []
    with pytest.raises(errors.ClientClosed):
        await consumer.poll()
    with pytest.raises(errors.ClientClosed):
        consumer.seek_to_end()


async def test_a_cancelled_poll_loses_nothing(group_cluster: Broker, consume: Consume) -> None:
    topic = create_topic(group_cluster.bootstrap, "orders")
    consumer = consume(topic)
    polling = asyncio.create_task(consumer.poll(WAIT_SECONDS))
    await asyncio.sleep(0)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling

    write(group_cluster.bootstrap, topic, NUMBERS)

    assert values(await take(consumer, 100)) == NUMBERS
