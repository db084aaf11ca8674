"""Every call of an async consumer, with its results. Never run: type checkers read it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from penstock.aio import (
    Consumer,
    ConsumerInterceptor,
    GroupMetadata,
    Message,
    Offset,
    OffsetAndTimestamp,
    PartitionInfo,
    Reading,
    RebalanceListener,
    TopicPartition,
)
from penstock.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSubscription,
    MemberAssignment,
    MemberSubscription,
    RangeAssignor,
    ReceivedAssignment,
    RoundRobinAssignor,
    StickyAssignor,
)

FIRST = TopicPartition("orders", 0)


class Listener(RebalanceListener):
    async def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...], /) -> None:
        print("mine", partitions)

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...], /) -> None:
        print("not mine", partitions)


class Watching(ConsumerInterceptor):
    def on_consume(self, messages: list[Message]) -> list[Message]:
        return messages

    def on_commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        print(offsets)

    def close(self) -> None: ...


class AllToOne(Assignor):
    name = "all-to-one"

    def assign(self, group: GroupSubscription) -> dict[str, MemberAssignment]:
        first: MemberSubscription = group.in_order[0]
        return {
            first.member_id: MemberAssignment([TopicPartition(topic, 0) for topic in group.racks], b"word")
        }

    def assigned(self, received: ReceivedAssignment) -> None:
        print(received.partitions, received.generation)


def make() -> list[Consumer]:
    return [
        Consumer("orders", group="billing"),
        Consumer("orders", "payments", group_id="billing", group_protocol="consumer", deserializer="json"),
        Consumer(re.compile("orders-.*"), bootstrap_servers=["a:9092", "b:9092"], max_poll_records=5),
        Consumer(FIRST, settings={"isolation.level": "read_committed"}, auto_offset_reset="by_duration:PT1H"),
        Consumer(
            "orders",
            group="billing",
            interceptor_classes=[Watching()],
            partition_assignment_strategy=[
                AllToOne(),
                CooperativeStickyAssignor(),
                RangeAssignor,
                RoundRobinAssignor,
                StickyAssignor,
                "range",
            ],
            key_deserializer=str,
            value_deserializer=lambda data: data.decode(),
        ),
    ]


async def choose(consumer: Consumer) -> None:
    consumer.subscribe(["orders", "payments"], listener=Listener())
    consumer.subscribe(pattern="orders-.*")
    topics: frozenset[str] = consumer.subscription()
    await consumer.unsubscribe()
    consumer.assign([FIRST])
    partitions: frozenset[TopicPartition] = consumer.assignment()
    print(topics, partitions, consumer.settings.get("group.id"))


async def take(consumer: Consumer) -> None:
    async for message in consumer:
        look_at(message)
    messages: list[Message] = await consumer.poll(timeout=0.1, max_records=5)
    print(messages)


def look_at(message: Message) -> None:
    place: tuple[str, int, int] = (message.topic, message.partition, message.offset)
    time: datetime.datetime | None = message.time
    headers: tuple[tuple[str, bytes | None], ...] = message.headers
    content: tuple[Any, Any] = (message.key, message.value)
    print(place, time, headers, content, message.timestamp_ms, message.timestamp_type, message.leader_epoch)


async def read(consumer: Consumer) -> None:
    reading: Reading = consumer.read(until="end", limit=10, headers=False, timeout=5)
    messages: list[Message] = await reading.to_messages()
    await reading.to_arrow()
    await reading.to_pandas()
    print(messages)
    consumer.read({FIRST: 5})
    consumer.read(datetime.datetime.now(datetime.UTC))


async def move(consumer: Consumer, message: Message) -> None:
    consumer.seek(FIRST, 5)
    consumer.seek(FIRST, message)
    consumer.seek_to_beginning(FIRST)
    consumer.seek_to_end([FIRST])
    consumer.rewind()
    consumer.seek_to_time(datetime.datetime.now(datetime.UTC), FIRST)
    position: int = await consumer.position(FIRST, timeout=5)
    positions: dict[TopicPartition, int] = consumer.positions()
    consumer.pause(FIRST)
    consumer.resume(FIRST)
    paused: frozenset[TopicPartition] = consumer.paused()
    lag: int | None = consumer.lag(FIRST)
    print(position, positions, paused, lag)


async def commit(consumer: Consumer, message: Message) -> None:
    await consumer.commit()
    await consumer.commit(message, timeout=5)
    await consumer.commit({FIRST: 5})
    committed: dict[TopicPartition, Offset] = await consumer.committed(FIRST)
    reported: Offset = committed[FIRST]
    who: GroupMetadata = consumer.group_metadata()
    print(reported.offset, reported.metadata, who.group_id, who.generation, who.member_id, who.instance_id)


async def ask(consumer: Consumer) -> None:
    found: dict[TopicPartition, OffsetAndTimestamp | None] = await consumer.offsets_for_times({FIRST: 5})
    for place in found.values():
        if place is not None:
            print(place.offset, place.timestamp_ms, place.leader_epoch)
    first: dict[TopicPartition, int] = await consumer.beginning_offsets(FIRST)
    last: dict[TopicPartition, int] = await consumer.end_offsets([FIRST], timeout=5)
    partitions: tuple[PartitionInfo, ...] = await consumer.partitions_for("orders")
    topic_id: str | None = consumer.topic_id("orders")
    topics: frozenset[str] = await consumer.topics()
    print(first, last, partitions, topic_id, topics)
    await consumer.close(timeout=5)


async def with_block() -> None:
    async with Consumer("orders") as consumer:
        print(await anext(aiter(consumer)))
