"""Whole clients on a simulated node, from a seed: producers and groups of consumers while the node dies and comes back.

Every record that was acknowledged is there once, in the order in which it was sent; every group reads each of them, and
nothing else; and a reader of a partition skips nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from penstock import TopicPartition, errors
from penstock.aio import Consumer, Producer
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.testing.simulation import HOST, PORT, BrokenPromise, Simulation

BROKER = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
}
TOPIC = "orders"
PARTITIONS = 4
TROUBLE_S = 30.0
SEEDS_IN_SUITE = 8
REST_S = 300.0
ADDRESS = f"{HOST}:{PORT}"


class Writer:
    """An idempotent producer, and what became of its records."""

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
            raise BrokenPromise(f"{self.name} sent {count} records, and {len(self.acknowledged)} are placed")

    async def _take(self, receipt: object, value: str) -> None:
        delivery = await receipt  # type: ignore[misc]
        place = (delivery.partition, delivery.offset)
        if place in self.acknowledged:
            raise BrokenPromise(f"{value} and {self.acknowledged[place]} lie in the same place")
        self.acknowledged[place] = value


class Reader:
    """One member of a group, and what it has read."""

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
                        f"{self.name} goes from {expected} to {message.offset} in {partition}"
                    )
                self.next_offsets[partition] = message.offset + 1
                self.group.read(partition, message.offset, message.value.decode())
            if not self.is_automatic and self.random.random() < 0.5:
                await self._commit()
            if not self.is_calm and self.random.random() < 0.02:
                await asyncio.sleep(self.random.uniform(0, 15))  # busy, perhaps for too long
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
        self.settings: dict[str, object] = {"group.id": self.id, "group.protocol": "consumer"}
        self.is_automatic = rng.random() < 0.5
        strategy = rng.choice(("range", "sticky", "cooperative-sticky", None))
        if strategy is not None:
            self.settings |= {
                "group.protocol": "classic",
                "partition.assignment.strategy": strategy,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 1_000,
            }
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
            raise BrokenPromise(f"{partition} had {found[offset]} at {offset}, and now has {value}")

    def enter(self) -> None:
        reader = Reader(self.simulation, self, next(self._numbers), random.Random(self.random.random()))
        self.readers[reader] = asyncio.create_task(reader.run())

    async def change(self) -> None:
        """Somebody comes or goes."""
        if len(self.readers) < 3 and (not self.readers or self.random.random() < 0.6):
            self.enter()
        else:
            reader = self.random.choice(list(self.readers))
            reader.is_over = True
            await self.readers.pop(reader)

    def check(self) -> None:
        for task in self.readers.values():
            if task.done():
                task.result()


class Play:
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
        await self._create_topic()
        writing = [asyncio.create_task(writer.run()) for writer in self.writers]
        for group in self.groups:
            group.enter()
        await self._make_trouble(writing)
        for writer in self.writers:
            writer.is_over = True
        await asyncio.gather(*writing)
        acknowledged = self._check_order()
        await self._settle(acknowledged)
        for group in self.groups:
            for reader, task in group.readers.items():
                reader.is_over = True
                await task

    async def _create_topic(self) -> None:
        connection = await self.simulation.connect()
        config = CreatableTopicConfig(name="flush.messages", value="1")  # what is acknowledged outlives power
        topic = CreatableTopic(
            name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[config]
        )
        await connection.ask(CreateTopicsRequest(topics=[topic]))
        connection.close()

    async def _make_trouble(self, writing: list[asyncio.Task[None]]) -> None:
        until = self.simulation.loop.time() + TROUBLE_S
        while self.simulation.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0, 4))
            for task in writing:
                if task.done():
                    task.result()
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
                    await self.random.choice(self.groups).change()

    async def _start(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 3))
        await self.simulation.start()

    def _check_order(self) -> dict[tuple[int, int], str]:
        """What each writer sent to a partition lies there in the order of sending; places of all of them."""
        everything: dict[tuple[int, int], str] = {}
        for writer in self.writers:
            for place, value in writer.acknowledged.items():
                if everything.setdefault(place, value) != value:
                    raise BrokenPromise(f"{value} and {everything[place]} lie at {place}")
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
        """Each group reads everything, and what it reads is what was acknowledged and nothing else."""
        until = self.simulation.loop.time() + REST_S
        wanted: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        for (partition, offset), value in acknowledged.items():
            wanted[TopicPartition(TOPIC, partition)][offset] = value
        for group in self.groups:
            if not group.readers:
                group.enter()
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
                    raise BrokenPromise(f"{group.id} has not read {missing}, and read besides {extra}")
                await asyncio.sleep(0.5)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Fewer than of simulations that know less: each takes seconds."""
    first: int = metafunc.config.getoption("--seed") or 0
    count: int = metafunc.config.getoption("--seeds") or SEEDS_IN_SUITE
    metafunc.parametrize("seed_of_clients", range(first, first + count))


def test_nothing_is_lost_between_producers_and_groups(seed_of_clients: int) -> None:
    simulation = Simulation(seed_of_clients, settings=BROKER)
    simulation.run(lambda simulation: Play(simulation, seed_of_clients).run(simulation))
