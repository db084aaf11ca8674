"""Random kills, power cuts, elections and network faults: no acknowledged record is lost, and replicas stay equal."""

from __future__ import annotations

import asyncio
import random

import pytest

from harness.replicas import Replicas, values
from penstock.metadata.errors import Refused

PARTITIONS = 3
ROUNDS = 25
PROPERTIES = {"replica.lag.time.max.ms": "2000", "replica.fetch.backoff.ms": "200"}


class Chaos:
    def __init__(self, seed: int) -> None:
        self.cluster = Replicas(seed, properties=PROPERTIES)
        self.random: random.Random = self.cluster.random
        self.acknowledged: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self.produced = 0
        self.is_over = False

    async def run(self) -> None:
        cluster = self.cluster
        cluster.add_topic(partitions=PARTITIONS, settings={"min.insync.replicas": "2"})
        await asyncio.sleep(0.1)
        producers = [asyncio.ensure_future(self._produce(index)) for index in range(PARTITIONS)]
        for _ in range(ROUNDS):
            await asyncio.sleep(self.random.uniform(0, 0.5))
            await self.random.choice(
                [self._kill, self._kill, self._elect, self._cut, self._cut_one_way, self._start_all]
            )()
        self.is_over = True
        await self._start_all()
        cluster.network.links.heal()
        await asyncio.gather(*producers)
        await cluster.until_in_sync(seconds=120)
        for index in range(PARTITIONS):
            leader = cluster.leader(index=index)
            await cluster.until(
                lambda leader=leader: leader.high_watermark == leader.log.end_offset  # type: ignore[misc]
            )
            await asyncio.sleep(2)
            cluster.check_equal(index=index)
            found = values(leader)
            assert [value for value in found if value in set(self.acknowledged[index])] == sorted(
                set(found) & set(self.acknowledged[index]), key=_number
            ), "records of one producer are out of order"
            lost = set(self.acknowledged[index]) - set(found)
            assert not lost, f"{len(lost)} acknowledged records are lost, the first is {min(lost)!r}"
            for node in cluster.nodes.values():
                assert node.partition(index=index).log.end_offset == leader.log.end_offset
        assert sum(map(len, self.acknowledged.values())) > 0

    async def _produce(self, index: int) -> None:
        """Produce one record after the other, each until it is acknowledged or fails."""
        cluster = self.cluster
        while not self.is_over:
            await asyncio.sleep(self.random.uniform(0, 0.02))
            self.produced += 1
            value = b"%d" % self.produced
            node = cluster.nodes.get(cluster.state(index=index).leader)
            if node is None or not node.is_up:
                continue
            try:
                await node.produce(value, index=index, timeout_s=self.random.uniform(0.1, 3))
            except (Refused, TimeoutError):
                continue
            self.acknowledged[index].append(value)

    async def _kill(self) -> None:
        cluster = self.cluster
        alive = [node for node in cluster.nodes.values() if node.is_up]
        if len(alive) < 2:
            return
        node = self.random.choice(alive)
        is_needed = any(cluster.state(index=index).isr == (node.node_id,) for index in range(PARTITIONS))
        if is_needed or self.random.random() < 0.5:
            node.kill()
        else:
            node.lose_power()
        await asyncio.sleep(self.random.uniform(0, 0.3))
        cluster.fence(node.node_id)

    async def _elect(self) -> None:
        index = self.random.randrange(PARTITIONS)
        candidates = [
            node_id for node_id in self.cluster.state(index=index).isr if self.cluster.nodes[node_id].is_up
        ]
        if candidates:
            self.cluster.elect_one(index, self.random.choice(candidates))

    async def _cut(self) -> None:
        first, second = self.random.sample([node.host for node in self.cluster.nodes.values()], 2)
        links = self.cluster.network.links
        links.cut(first, second)
        links.cut(second, first)
        await asyncio.sleep(self.random.uniform(0, 4))
        links.heal()

    async def _cut_one_way(self) -> None:
        first, second = self.random.sample([node.host for node in self.cluster.nodes.values()], 2)
        self.cluster.network.links.cut(first, second)
        await asyncio.sleep(self.random.uniform(0, 4))
        self.cluster.network.links.heal()

    async def _start_all(self) -> None:
        for node in self.cluster.nodes.values():
            if not node.is_up:
                await node.start()


def _number(value: bytes | None) -> int:
    return int(value or b"0")


@pytest.mark.parametrize("seed", [*range(8), 40, 62])
def test_no_acknowledged_record_is_lost(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.cluster.run(chaos.run)
