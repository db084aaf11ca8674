"""Our own members of groups against our own coordinator, in one process, from a seed.

Members come and go, crash, poll too late, and their broker is killed; at the end, when nothing goes wrong any more,
every partition has one reader. All the while no partition has two readers of one generation, and nobody commits for a
partition that another one has been given.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.group.member import GroupMember
from penstock.client.group.nouns import Assigned, Offset
from penstock.client.settings import ConsumerSettings
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.testing.simulation import HOST, PORT, BrokenPromise, Simulation

BROKER = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "num.partitions": "5",
}
TOPICS = ("orders", "payments")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", ["range", "cooperative-sticky"])
TROUBLE_S = 60.0
SETTLE_S = 120.0


@dataclass
class Books:
    """Who was given what, in the order in which applications learned of it."""

    group_id: str
    held: dict[TopicPartition, dict[Actor, int]] = field(default_factory=dict)
    """Readers that believe in a partition, and the generation in which they were given it."""
    last_given: dict[TopicPartition, Actor] = field(default_factory=dict)
    commits: int = 0
    refused: int = 0

    def given(self, actor: Actor, partition: TopicPartition, generation: int) -> None:
        holders = self.held.setdefault(partition, {})
        for other in holders:
            if other.member.metadata.generation == generation:
                raise BrokenPromise(
                    f"{partition} is given to {actor.name} while {other.name} holds it, both in {generation}"
                )
        holders[actor] = generation
        self.last_given[partition] = actor

    def let_go(self, actor: Actor, partition: TopicPartition) -> None:
        self.held.get(partition, {}).pop(actor, None)

    def gone(self, actor: Actor) -> None:
        for holders in self.held.values():
            holders.pop(actor, None)


class Actor:
    def __init__(
        self, simulation: Simulation, name: str, books: Books, options: dict[str, object], rng: random.Random
    ) -> None:
        self.simulation = simulation
        self.name = name
        self.books = books
        self.random = rng
        self.is_leaving = False
        self.is_patient = False
        """Nothing goes wrong any more: poll in time."""
        options = {
            "bootstrap_servers": f"{HOST}:{PORT}",
            "allow_auto_create_topics": True,  # the members make their topics
            "group_id": books.group_id,
            "client_id": name,
            "max_poll_interval_ms": 8_000,
            "request_timeout_ms": 5_000,
            "default_api_timeout_ms": 10_000,
            "metadata_max_age_ms": 3_000,
            **options,
        }
        settings = ConsumerSettings.of(None, {}, options)
        self.client = ClusterClient(
            settings, network=simulation.network, clock=simulation.clock, rng=random.Random(rng.random())
        )
        self.member = GroupMember(self.client, rng=random.Random(rng.random()))
        self.position = 0

    async def run(self) -> None:
        self.member.subscribe(TOPICS)
        while not self.is_leaving:
            await self._poll()
            if not self.is_patient and self.random.random() < 0.01:
                await asyncio.sleep(self.random.uniform(0, 20))  # busy, perhaps for too long
            await asyncio.sleep(self.random.uniform(0, 0.5))
        if (event := self.member.let_go()) is not None:
            await self._handle(event)
        await self.member.leave("the play is over", for_good=self.random.random() < 0.5)
        await self.client.close()

    async def _poll(self) -> None:
        self.member.note_poll()
        try:
            while (event := self.member.next_event()) is not None:
                await self._handle(event)
        except errors.UnreleasedInstanceId:
            await asyncio.sleep(1)
            self.member.subscribe(TOPICS)
        if self.random.random() < 0.3:
            await self._commit()

    async def _handle(self, event: object) -> None:
        self.simulation.trace.note(f"{self.name}: {event}")
        if isinstance(event, Assigned):
            for partition in event.partitions:
                self.books.given(self, partition, self.member.metadata.generation)
        elif self.random.random() < 0.3:
            await self._commit()
        if self.random.random() < 0.2:
            await asyncio.sleep(self.random.uniform(0, 1))  # a listener that takes its time
        if not isinstance(event, Assigned):
            for partition in event.partitions:  # type: ignore[attr-defined]
                self.books.let_go(self, partition)
        self.member.acknowledge(event)  # type: ignore[arg-type]

    async def _commit(self) -> None:
        self.position += 1
        mine = self.member.held
        others = [each for each in mine if self.books.last_given[each] is not self]
        try:
            await self.member.commit({each: Offset(self.position, -1, self.name) for each in mine})
        except (errors.CommitFailed, errors.RebalanceInProgress, errors.TimedOut, errors.NoBrokersAvailable):
            self.books.refused += 1
        else:
            self.books.commits += 1
            if others:
                raise BrokenPromise(f"{self.name} commits {others}, which others have been given")

    async def vanish(self) -> None:
        """As a process that was killed."""
        self.books.gone(self)
        await self.member._stop()
        await self.client.close()


class Play:
    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.simulation = simulation
        self.random = random.Random(f"{seed}/client groups")
        self.books = Books("billing")
        protocol = self.random.choice(("classic", "consumer"))
        self.options: dict[str, object] = {"group_protocol": protocol}
        if protocol == "classic":
            self.options["partition_assignment_strategy"] = self.random.choice(STRATEGIES)
            self.options["session_timeout_ms"] = 6_000
            self.options["heartbeat_interval_ms"] = 1_000
        self.actors: dict[Actor, asyncio.Task[None]] = {}
        self.count = 0
        self.partitions = 5

    async def run(self, simulation: Simulation) -> None:
        await simulation.start()
        trouble = asyncio.create_task(self._make_trouble())
        await trouble
        for actor in self.actors:
            actor.is_patient = True
        while len(self.actors) < 2:
            self._enter()
            list(self.actors)[-1].is_patient = True
        await self._settle()
        assert self.books.commits, "nobody could ever commit"
        for actor, task in self.actors.items():
            actor.is_leaving = True
            await task

    def _enter(self) -> None:
        self.count += 1
        options = dict(self.options)
        if self.random.random() < 0.25:
            options["group_instance_id"] = f"static-{self.count}"
        rng = random.Random(self.random.random())
        actor = Actor(self.simulation, f"member-{self.count}", self.books, options, rng)
        self.actors[actor] = asyncio.create_task(actor.run())

    async def _make_trouble(self) -> None:
        until = self.simulation.loop.time() + TROUBLE_S
        self._enter()
        while self.simulation.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0, 3))
            self._check()
            match self.random.randrange(8):
                case 0 | 1 | 2 if len(self.actors) < 6:
                    self._enter()
                case 3 if self.actors:
                    actor = self.random.choice(list(self.actors))
                    actor.is_leaving = True
                    await self.actors.pop(actor)
                case 4 if self.actors:
                    actor = self.random.choice(list(self.actors))
                    task = self.actors.pop(actor)
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    await actor.vanish()
                case 5:
                    await self._end_broker()
                case 6:
                    await self._grow()

    def _check(self) -> None:
        for task in self.actors.values():
            if task.done():
                task.result()

    async def _end_broker(self) -> None:
        if self.random.random() < 0.5:
            await self.simulation.stop()
        else:
            self.simulation.crash(loses_power=False)
        await asyncio.sleep(self.random.uniform(0, 4))
        await self.simulation.start()

    async def _grow(self) -> None:
        connection = await self.simulation.connect()
        self.partitions += self.random.randint(0, 2)
        await connection.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=TOPICS[0], count=self.partitions, assignments=None)],
                timeout_ms=1000,
                validate_only=False,
            )
        )
        connection.close()

    async def _settle(self) -> None:
        until = self.simulation.loop.time() + SETTLE_S
        connection = await self.simulation.connect()
        while True:
            await asyncio.sleep(1)
            self._check()
            image = self.simulation.node.metadata.image
            wanted = {
                TopicPartition(name, index)
                for name in TOPICS
                if (topic := image.topics.get(name)) is not None
                for index in range(len(topic.partitions))
            }
            held = [each for actor in self.actors for each in actor.member.held]
            if wanted and len(wanted) >= 10 and sorted(held) == sorted(wanted):
                break
            if self.simulation.loop.time() > until:
                raise BrokenPromise(
                    f"the group does not settle: {sorted(wanted)} are there,"
                    f" { {actor.name: sorted(actor.member.held) for actor in self.actors} } are held"
                )
        connection.close()


def test_members_share_the_work_through_all_trouble(seed: int) -> None:
    simulation = Simulation(seed, settings=BROKER)
    simulation.run(lambda simulation: Play(simulation, seed).run(simulation))
