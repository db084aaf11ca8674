"""Producers and consumer groups on a simulated node that crashes and restarts, from a seed.

Every acknowledged record is there once, in the order in which it was sent. Every group reads all of them and nothing
else, and no reader skips an offset of a partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator

from harness.client_simulations import (
    ADDRESS,
    SHORT_GROUP_TIMEOUTS,
    create_durable_topics,
    group_settings,
    raise_errors,
)
from penstock import TopicPartition, errors
from penstock.aio import Consumer, Producer
from simulator.simulation import BrokenPromise, Simulation

TOPIC = "orders"
PARTITIONS = 4
FAULTS_S = 30.0
SEEDS_IN_SUITE = 8  # each takes seconds
SETTLE_S = 300.0


class Writer:
    """An idempotent producer, and the offsets of its records."""

    def __init__(self, simulation: Simulation, rng: random.Random, number: int) -> None:
        self.random = rng
        self.producer = Producer(
            ADDRESS,
            network=simulation.network,
            clock=simulation.clock,
            client_id=f"writer-{number}",
            linger_ms=rng.choice((0, 5)),
            batch_size=rng.choice((1, 200, 100_000)),
            max_in_flight_requests_per_connection=rng.choice((1, 5)),
            request_timeout_ms=3_000,
            delivery_timeout_ms=300_000,
            max_block_ms=100_000,
        )
        self.name = f"writer-{number}"
        self.is_over = False
        self.acknowledged: dict[tuple[int, int], str] = {}

    async def run(self) -> None:
        count = 0
        waiting: set[asyncio.Task[None]] = set()
        async with self.producer as producer:
            while not self.is_over:
                for _ in range(self.random.randint(1, 10)):
                    value = f"{self.name}/{count}"
                    count += 1
                    receipt = await producer.send(TOPIC, value, partition=self.random.randrange(PARTITIONS))
                    waiting.add(asyncio.create_task(self._take(receipt, value)))
                await asyncio.sleep(self.random.uniform(0, 0.2))
            await producer.flush()
        await asyncio.gather(*waiting)
        if len(self.acknowledged) != count:
            raise BrokenPromise(
                f"{self.name} sent {count} records, but {len(self.acknowledged)} have an offset"
            )

    async def _take(self, receipt: object, value: str) -> None:
        delivery = await receipt  # type: ignore[misc]
        position = (delivery.partition, delivery.offset)
        if position in self.acknowledged:
            raise BrokenPromise(f"{value} and {self.acknowledged[position]} have the same offset")
        self.acknowledged[position] = value


class Reader:
    """One group member, and what it has read."""

    def __init__(self, simulation: Simulation, group: Group, name: str, rng: random.Random) -> None:
        self.group = group
        self.name = name
        self.random = rng
        self.is_over = self.is_calm = False
        self.next_offsets: dict[TopicPartition, int] = {}
        self.is_automatic = group.is_automatic
        self.consumer = Consumer(
            network=simulation.network,
            clock=simulation.clock,
            settings={
                "bootstrap.servers": ADDRESS,
                "client.id": name,
                "request.timeout.ms": 3_000,
                "default.api.timeout.ms": 20_000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": self.is_automatic,
                "auto.commit.interval.ms": 1_000,
                "max.poll.interval.ms": 8_000,
                "max.poll.records": rng.choice((10, 50, 500)),
                **group.settings,
            },
        )

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._forget(partitions)

    async def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        if not self.is_automatic and self.random.random() < 0.7:
            await self._commit()
        self._forget(partitions)

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            self.next_offsets.pop(partition, None)

    async def run(self) -> None:
        self.consumer.subscribe(TOPIC, listener=self)
        while not self.is_over:
            for message in await self.consumer.poll(timeout=self.random.choice((0, 0.1, 1.0))):
                partition = TopicPartition(message.topic, message.partition)
                expected = self.next_offsets.get(partition)
                if expected is not None and message.offset != expected:
                    raise BrokenPromise(
                        f"{self.name} went from {expected} to {message.offset} in {partition}"
                    )
                self.next_offsets[partition] = message.offset + 1
                self.group.read(partition, message.offset, message.value.decode())
            if not self.is_automatic and self.random.random() < 0.5:
                await self._commit()
            if not self.is_calm and self.random.random() < 0.02:
                await asyncio.sleep(self.random.uniform(0, 15))  # slow, perhaps too slow
            await asyncio.sleep(self.random.uniform(0, 0.1))
        await self.consumer.close()

    async def _commit(self) -> None:
        with contextlib.suppress(
            errors.CommitFailed, errors.RebalanceInProgress, errors.TimedOut, errors.NoBrokersAvailable
        ):
            await self.consumer.commit()


class Group:
    def __init__(self, simulation: Simulation, rng: random.Random, number: int) -> None:
        self.simulation = simulation
        self.random = rng
        self.id = f"group-{number}"
        self.is_automatic = rng.random() < 0.5
        strategy = rng.choice(("range", "sticky", "cooperative-sticky", None))
        self.settings = group_settings(self.id, strategy)
        self.found: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        self.readers: dict[Reader, asyncio.Task[None]] = {}
        self._numbers = self._count()

    def _count(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"{self.id}-member-{number}"

    def read(self, partition: TopicPartition, offset: int, value: str) -> None:
        found = self.found[partition]
        if found.setdefault(offset, value) != value:
            raise BrokenPromise(f"{partition} had {found[offset]} at {offset}, but now has {value}")

    def add_member(self) -> None:
        reader = Reader(self.simulation, self, next(self._numbers), random.Random(self.random.random()))
        self.readers[reader] = asyncio.create_task(reader.run())

    async def add_or_remove_member(self) -> None:
        """A member joins or leaves."""
        if len(self.readers) < 3 and (not self.readers or self.random.random() < 0.6):
            self.add_member()
        else:
            reader = self.random.choice(list(self.readers))
            reader.is_over = True
            await self.readers.pop(reader)

    def check(self) -> None:
        raise_errors(self.readers.values())


class Scenario:
    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.simulation = simulation
        self.random = random.Random(f"{seed}/clients")
        self.writers = [
            Writer(simulation, random.Random(self.random.random()), number)
            for number in range(self.random.randint(1, 2))
        ]
        self.groups = [
            Group(simulation, random.Random(self.random.random()), number)
            for number in range(self.random.randint(1, 2))
        ]

    async def run(self, simulation: Simulation) -> None:
        await simulation.start()
        await create_durable_topics(simulation, TOPIC, partitions=PARTITIONS)
        writing = [asyncio.create_task(writer.run()) for writer in self.writers]
        for group in self.groups:
            group.add_member()
        await self._inject_faults(writing)
        for writer in self.writers:
            writer.is_over = True
        await asyncio.gather(*writing)
        acknowledged = self._check_order()
        await self._settle(acknowledged)
        for group in self.groups:
            for reader, task in group.readers.items():
                reader.is_over = True
                await task

    async def _inject_faults(self, writing: list[asyncio.Task[None]]) -> None:
        until = self.simulation.loop.time() + FAULTS_S
        while self.simulation.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0, 4))
            raise_errors(writing)
            for group in self.groups:
                group.check()
            match self.random.randrange(4):
                case 0:
                    await self.simulation.stop()
                    await self._start()
                case 1:
                    self.simulation.crash(loses_power=self.random.random() < 0.5)
                    await self._start()
                case _:
                    await self.random.choice(self.groups).add_or_remove_member()

    async def _start(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 3))
        await self.simulation.start()

    def _check_order(self) -> dict[tuple[int, int], str]:
        """The records of each writer are in each partition in the order of sending. Returns all records by partition
        and offset."""
        everything: dict[tuple[int, int], str] = {}
        for writer in self.writers:
            for position, value in writer.acknowledged.items():
                if everything.setdefault(position, value) != value:
                    raise BrokenPromise(f"{value} and {everything[position]} are both at {position}")
            for partition in range(PARTITIONS):
                numbers = [
                    int(value.rpartition("/")[2])
                    for (each, _), value in sorted(writer.acknowledged.items())
                    if each == partition
                ]
                if numbers != sorted(numbers):
                    raise BrokenPromise(f"{writer.name} wrote {numbers} to {partition}, out of order")
        return everything

    async def _settle(self, acknowledged: dict[tuple[int, int], str]) -> None:
        """Each group reads exactly the acknowledged records."""
        until = self.simulation.loop.time() + SETTLE_S
        wanted: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        for (partition, offset), value in acknowledged.items():
            wanted[TopicPartition(TOPIC, partition)][offset] = value
        for group in self.groups:
            if not group.readers:
                group.add_member()
            for reader in group.readers:
                reader.is_calm = True
            while group.found != wanted:
                group.check()
                if self.simulation.loop.time() > until:
                    missing = {
                        str(partition): sorted(offsets.keys() - group.found[partition].keys())[:5]
                        for partition, offsets in wanted.items()
                    }
                    extra = {
                        str(partition): sorted(offsets.keys() - wanted[partition].keys())[:5]
                        for partition, offsets in group.found.items()
                    }
                    raise BrokenPromise(f"{group.id} has not read {missing}, but read {extra}")
                await asyncio.sleep(0.5)


def test_groups_read_exactly_the_acknowledged_records(seed: int) -> None:
    simulation = Simulation(seed, settings=SHORT_GROUP_TIMEOUTS)
    simulation.run(lambda simulation: Scenario(simulation, seed).run(simulation))
