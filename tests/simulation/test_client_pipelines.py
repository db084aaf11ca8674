"""Consume, produce and commit in one transaction, from a seed: each record is copied exactly once, whatever crashes.

Workers of one group copy a topic to another. Some are so slow that others take over in the middle of a transaction. A
worker that gets an error drops its clients and starts over, like a restarted program.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

from harness.client_simulations import (
    ADDRESS,
    SHORT_GROUP_TIMEOUTS,
    create_durable_topics,
    group_settings,
    raise_errors,
)
from penstock import errors
from penstock.aio import Consumer, Producer
from simulator.simulation import BrokenPromise, Simulation

BROKER = {
    **SHORT_GROUP_TIMEOUTS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
SOURCE, COPIES = "source", "copies"
PARTITIONS = 3
RECORDS = 300
FAULTS_S = 30.0
SETTLE_S = 300.0
SEEDS_IN_SUITE = 5


class Worker:
    def __init__(self, scenario: Scenario, name: str, rng: random.Random) -> None:
        self.scenario = scenario
        self.name = name
        self.random = rng
        self.is_over = False
        self.lives = 0

    async def run(self) -> None:
        while not self.is_over:
            self.lives += 1
            consumer, producer = self._make_clients()
            try:
                consumer.subscribe(SOURCE)
                while not self.is_over:
                    await self._copy_some(consumer, producer)
            except errors.PenstockError as error:
                self.scenario.simulation.trace.note(f"{self.name}: {error!r}")
                self.scenario.failures += 1
            finally:
                for client in (consumer, producer):
                    with contextlib.suppress(errors.PenstockError):
                        await client.close(timeout=5)

    def _make_clients(self) -> tuple[Consumer, Producer]:
        simulation = self.scenario.simulation
        consumer = Consumer(
            network=simulation.network,
            clock=simulation.clock,
            settings={
                "bootstrap.servers": ADDRESS,
                "request.timeout.ms": 3_000,
                "default.api.timeout.ms": 10_000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "max.poll.interval.ms": 8_000,
                "max.poll.records": self.random.choice((3, 20)),
                **self.scenario.group_settings,
            },
        )
        producer = Producer(
            ADDRESS,
            network=simulation.network,
            clock=simulation.clock,
            transactional_id=f"{self.name}-{self.lives % 2}",
            transaction_timeout_ms=10_000,
            request_timeout_ms=3_000,
            delivery_timeout_ms=9_000,
            max_block_ms=10_000,
        )
        return consumer, producer

    async def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        messages = await consumer.poll(timeout=0.5)
        if not messages:
            return
        async with producer.transaction() as transaction:
            for message in messages:
                await producer.send(COPIES, message.value, partition=message.partition)
            if self.random.random() < self.scenario.slow_chance:
                await asyncio.sleep(self.random.uniform(0, 14))  # long enough for others to take over
            await transaction.send_offsets(consumer)


class Scenario:
    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.simulation = simulation
        self.random = random.Random(f"{seed}/pipelines")
        self.failures = 0
        self.slow_chance = 0.05
        strategy = self.random.choice(("range", "cooperative-sticky", None))
        self.group_settings = group_settings("copiers", strategy)

    async def run(self, simulation: Simulation) -> None:
        await simulation.start()
        await create_durable_topics(simulation, SOURCE, COPIES, partitions=PARTITIONS)
        await self._write()
        workers = [Worker(self, f"worker-{n}", random.Random(self.random.random())) for n in range(2)]
        working = [asyncio.create_task(worker.run()) for worker in workers]
        await self._inject_faults(working)
        self.slow_chance = 0.0
        await self._settle(working)
        for worker in workers:
            worker.is_over = True
        await asyncio.gather(*working)
        if (found := await self._copied()) != self._wanted():
            raise BrokenPromise(f"in the end there are {len(found)} copies")

    def _wanted(self) -> list[int]:
        return list(range(RECORDS))

    async def _write(self) -> None:
        async with Producer(
            ADDRESS, network=self.simulation.network, clock=self.simulation.clock
        ) as producer:
            for number in range(RECORDS):
                await producer.send(SOURCE, b"%d" % number, partition=number % PARTITIONS)

    async def _inject_faults(self, working: list[asyncio.Task[None]]) -> None:
        until = self.simulation.loop.time() + FAULTS_S
        while self.simulation.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0, 6))
            raise_errors(working)
            if self.random.random() < 0.5:
                await self.simulation.stop()
            else:
                self.simulation.crash(loses_power=False)
            await asyncio.sleep(self.random.uniform(0, 3))
            await self.simulation.start()

    async def _copied(self) -> list[int]:
        """The committed copies, sorted, with duplicates."""
        consumer = Consumer(
            COPIES,
            network=self.simulation.network,
            clock=self.simulation.clock,
            settings={"bootstrap.servers": ADDRESS, "isolation.level": "read_committed"},
        )
        async with consumer:
            messages = await consumer.read(until="end").to_messages()
        return sorted(int(message.value) for message in messages)

    async def _settle(self, working: list[asyncio.Task[None]]) -> None:
        until = self.simulation.loop.time() + SETTLE_S
        while (found := await self._copied()) != self._wanted():
            raise_errors(working)
            if len(found) != len(set(found)):
                twice = sorted({number for number in found if found.count(number) > 1})
                raise BrokenPromise(f"{twice[:10]} are copied more than once")
            if self.simulation.loop.time() > until:
                missing = sorted(set(self._wanted()) - set(found))
                raise BrokenPromise(f"{len(missing)} are not copied: {missing[:10]}")
            await asyncio.sleep(1)


def test_each_record_is_copied_exactly_once(seed: int) -> None:
    simulation = Simulation(seed, settings=BROKER)
    simulation.run(lambda simulation: Scenario(simulation, seed).run(simulation))
