"""Consume, transform, produce in one transaction, on a cluster under faults: each record is copied exactly once.

Workers of one group copy a topic to another with Penstock's own clients. So coordinators of groups and transactions
move between nodes, markers and verifications cross the network, and committed offsets must not go back. A worker that
gets an error drops its clients and starts over, like a restarted program.

Half of the seeds compact the logs of the coordinators all the time, and a compacted topic (`tables`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

from penstock import errors
from penstock.aio import Consumer, Producer
from penstock.metadata.names import INTERNAL_TOPICS
from simulator.cluster import BROKER_PORT, SimulatedCluster, host_of
from simulator.clusters.administrators import Administrator
from simulator.clusters.chaos import ClusterChaos, Power
from simulator.clusters.inside import is_fully_in_sync
from simulator.clusters.scenario import LINES_SHOWN, Layout, draw_layout
from simulator.clusters.tables import PARTITIONS as TABLE_PARTITIONS
from simulator.clusters.tables import TABLE, Connection, TableWriter, check_tables_equal, keys_on_disk
from simulator.clusters.watch import Watch
from simulator.compaction import draw_cleaner_settings
from simulator.loop import VirtualClock
from simulator.world import BrokenPromise

SOURCE, COPIES = "durable-source", "durable-copies"
PARTITIONS = 2
RECORDS = 120
CHAOS_S_MIN, CHAOS_S_MAX = 10.0, 25.0
SETTLE_S = 300.0
DELETE_S_MAX = 600.0  # a tombstone stays for `delete.retention.ms`, and clocks jump
SLOW_CHANCE = 0.05
SETTINGS = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def run_pipeline_seed(
    seed: int,
    *,
    power: Power | None = None,
    roles: dict[int, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Returns the fingerprint of the run."""
    layout = draw_layout(random.Random(f"{seed}/layout of pipelines"), power=power, roles=roles)
    cleaner_settings = draw_cleaner_settings(seed)
    settings = {**layout.settings, **SETTINGS, **cleaner_settings}
    cluster = SimulatedCluster(seed, roles=layout.roles, settings=settings)
    cluster.trace.on_line = on_line
    try:
        cluster.run(lambda cluster: PipelineScenario(cluster, layout, compacts=bool(cleaner_settings)).run())
    except Exception as error:
        lines = list(cluster.trace.lines)[-LINES_SHOWN:]
        error.add_note("\n".join([f"pipeline seed {seed}; the last events:", *lines]))
        raise
    return cluster.trace.fingerprint()


class PipelineScenario:
    def __init__(self, cluster: SimulatedCluster, layout: Layout, *, compacts: bool) -> None:
        self.cluster = cluster
        self.random = cluster.generator("pipelines")
        self.clock = VirtualClock(cluster.loop)
        self.bootstrap = ",".join(f"{host_of(node_id)}:{BROKER_PORT}" for node_id in cluster.broker_ids)
        self.chaos = ClusterChaos(
            cluster,
            seconds=self.random.uniform(CHAOS_S_MIN, CHAOS_S_MAX),
            power=layout.power,
            log_dirs=("/data",),
        )
        self._compacted = (*sorted(INTERNAL_TOPICS), TABLE) if compacts else ()
        self.watch = Watch(cluster, compacted=self._compacted)
        self._replicas = layout.replicas
        self._has_topics = asyncio.Event()
        self._administrator = Administrator(
            cluster, "admin", (SOURCE, COPIES), self.chaos.is_over, moves_replicas=layout.moves_replicas
        )
        self._workers = [
            _Worker(self, f"worker-{number}", random.Random(self.random.random())) for number in range(2)
        ]
        self._table_writer = TableWriter(
            Connection(self.bootstrap, cluster.network, self.clock),
            cluster.generator("table"),
            is_over=self.chaos.is_over,
        )

    async def run(self) -> None:
        watching = asyncio.ensure_future(self.watch.run())
        faults = asyncio.ensure_future(self._administer_and_break())
        writing = asyncio.ensure_future(self._write())
        working = [asyncio.ensure_future(worker.run()) for worker in self._workers]
        updating = asyncio.ensure_future(self._update_table())
        tasks = [watching, faults, writing, updating, *working]
        try:
            await _all_of(faults, writing, updating, watched=tasks)
            await self._settle(tasks)
            for worker in self._workers:
                worker.is_over = True
            await _all_of(*working, watched=tasks)
            if (found := await self._copied()) != list(range(RECORDS)):
                raise BrokenPromise(f"in the end there are {len(found)} copies")
            self.watch.logs.check()
            if self._compacted:
                await self._check_tables()
        finally:
            for task in tasks:
                task.cancel()

    async def _administer_and_break(self) -> None:
        async def administer() -> None:
            for topic in (SOURCE, COPIES):
                await self._administrator.ensure_exists(
                    topic, partitions=PARTITIONS, replicas=self._replicas, configs={}
                )
            if self._compacted:
                await self._administrator.ensure_exists(
                    TABLE,
                    partitions=TABLE_PARTITIONS,
                    replicas=self._replicas,
                    configs={"cleanup.policy": "compact"},
                )
            self._has_topics.set()
            await self._administrator.run()

        await asyncio.gather(self.chaos.run(), administer())

    async def _write(self) -> None:
        """An idempotent producer that never gives up."""
        await self._has_topics.wait()
        producer = Producer(
            self.bootstrap,
            network=self.cluster.network,
            clock=self.clock,
            rng=self._rng(),
            request_timeout_ms=3_000,
            delivery_timeout_ms=400_000,
            max_block_ms=400_000,
        )
        async with producer:
            for number in range(RECORDS):
                await producer.send(SOURCE, b"%d" % number, partition=number % PARTITIONS)
                await asyncio.sleep(self.random.uniform(0, 0.2))

    async def _update_table(self) -> None:
        await self._has_topics.wait()
        if self._compacted:
            await self._table_writer.run()

    async def _check_tables(self) -> None:
        cluster = self.cluster
        await self._check_table()
        until = cluster.loop.time() + SETTLE_S
        while not is_fully_in_sync(cluster):
            if cluster.loop.time() > until:
                raise BrokenPromise(f"not all replicas are in sync {SETTLE_S} s after the last fault")
            await asyncio.sleep(0.1)
        check_tables_equal(cluster, self._compacted)
        until = cluster.loop.time() + DELETE_S_MAX
        await self._table_writer.delete_plain_keys(
            until=lambda: cluster.loop.time() > until or not keys_on_disk(cluster, b"plain-")
        )
        if left := keys_on_disk(cluster, b"plain-"):
            raise BrokenPromise(f"{sorted(left)} were deleted {DELETE_S_MAX} s ago, and are still in a log")
        await self._check_table()
        check_tables_equal(cluster, self._compacted)

    async def _check_table(self) -> None:
        """The last transactions may be open until they time out."""
        until = self.cluster.loop.time() + SETTLE_S
        while wrong := await self._table_writer.find_wrong_values():
            if self.cluster.loop.time() > until:
                raise BrokenPromise(f"{TABLE}: {wrong}")
            await asyncio.sleep(1)

    def _rng(self) -> random.Random:
        return random.Random(self.random.random())

    async def _copied(self) -> list[int]:
        """The committed copies, sorted, with duplicates."""
        consumer = Consumer(
            COPIES,
            network=self.cluster.network,
            clock=self.clock,
            rng=self._rng(),
            settings={"bootstrap.servers": self.bootstrap, "isolation.level": "read_committed"},
        )
        async with consumer:
            messages = await consumer.read(until="end").to_messages()
        return sorted(int(message.value) for message in messages)

    async def _settle(self, tasks: list[asyncio.Task[None]]) -> None:
        until = self.cluster.loop.time() + SETTLE_S
        while (found := await self._copied()) != list(range(RECORDS)):
            _raise_errors(tasks)
            if len(found) != len(set(found)):
                twice = sorted({number for number in found if found.count(number) > 1})
                raise BrokenPromise(f"{twice[:10]} are copied more than once")
            if self.cluster.loop.time() > until:
                missing = sorted(set(range(RECORDS)) - set(found))
                raise BrokenPromise(
                    f"{len(missing)} are not copied {SETTLE_S} s after the last fault: {missing[:10]}"
                )
            await asyncio.sleep(1)


class _Worker:
    def __init__(self, scenario: PipelineScenario, name: str, rng: random.Random) -> None:
        self._scenario = scenario
        self._name = name
        self._random = rng
        self._lives = 0
        self.is_over = False

    async def run(self) -> None:
        while not self.is_over:
            self._lives += 1
            consumer, producer = self._make_clients()
            try:
                consumer.subscribe(SOURCE)
                while not self.is_over:
                    await self._copy_some(consumer, producer)
            except errors.PenstockError as error:
                self._scenario.cluster.trace.note(f"{self._name}: {error!r}")
            finally:
                for client in (consumer, producer):
                    with contextlib.suppress(errors.PenstockError):
                        await client.close(timeout=5)

    def _make_clients(self) -> tuple[Consumer, Producer]:
        scenario = self._scenario
        consumer = Consumer(
            network=scenario.cluster.network,
            clock=scenario.clock,
            rng=random.Random(self._random.random()),
            settings={
                "bootstrap.servers": scenario.bootstrap,
                "group.id": "copiers",
                "group.protocol": "consumer",
                "request.timeout.ms": 3_000,
                "default.api.timeout.ms": 10_000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "max.poll.interval.ms": 8_000,
                "max.poll.records": self._random.choice((3, 20)),
            },
        )
        producer = Producer(
            scenario.bootstrap,
            network=scenario.cluster.network,
            clock=scenario.clock,
            rng=random.Random(self._random.random()),
            transactional_id=f"{self._name}-{self._lives % 2}",
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
            if not self._scenario.chaos.is_over() and self._random.random() < SLOW_CHANCE:
                await asyncio.sleep(self._random.uniform(0, 14))  # long enough for others to take over
            await transaction.send_offsets(consumer)


async def _all_of(*wanted: asyncio.Task[None], watched: list[asyncio.Task[None]]) -> None:
    """Wait for the wanted tasks; raise the first error of any watched one."""
    while not all(task.done() for task in wanted):
        await asyncio.wait(watched, timeout=1.0, return_when=asyncio.FIRST_EXCEPTION)
        _raise_errors(watched)


def _raise_errors(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
