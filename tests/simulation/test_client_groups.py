"""Penstock's own group members against its own coordinator, in one process, from a seed.

Members join, leave, crash and poll too late, and their broker is killed. After the last fault every partition has one
owner. At no time has a partition two owners of one generation, and no member commits for a partition that was assigned
to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

from harness.client_simulations import ADDRESS, SHORT_GROUP_TIMEOUTS, raise_errors
from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.group.member import GroupMember
from penstock.client.group.types import Assigned, Offset
from penstock.client.settings import ConsumerSettings
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from simulator.simulation import BrokenPromise, Simulation

BROKER = {**SHORT_GROUP_TIMEOUTS, "num.partitions": "5"}
TOPICS = ("orders", "payments")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", ["range", "cooperative-sticky"])
FAULTS_S = 60.0
SETTLE_S = 120.0


@dataclass
class AssignmentLog:
    """The assignments, in the order in which applications got them."""

    group_id: str
    owned: dict[TopicPartition, dict[Application, int]] = field(default_factory=dict)
    """The applications that own a partition, and the generation in which each got it."""
    last_given: dict[TopicPartition, Application] = field(default_factory=dict)
    commits: int = 0
    refused: int = 0

    def assigned(self, application: Application, partition: TopicPartition, generation: int) -> None:
        holders = self.owned.setdefault(partition, {})
        for other in holders:
            if other.member.metadata.generation == generation:
                raise BrokenPromise(
                    f"{partition} is assigned to {application.name} while {other.name} owns it, both in {generation}"
                )
        holders[application] = generation
        self.last_given[partition] = application

    def revoked(self, application: Application, partition: TopicPartition) -> None:
        self.owned.get(partition, {}).pop(application, None)

    def closed(self, application: Application) -> None:
        for holders in self.owned.values():
            holders.pop(application, None)


class Application:
    def __init__(
        self,
        simulation: Simulation,
        name: str,
        assignments: AssignmentLog,
        options: dict[str, object],
        rng: random.Random,
    ) -> None:
        self.simulation = simulation
        self.name = name
        self.assignments = assignments
        self.random = rng
        self.is_leaving = False
        self.is_patient = False
        """After the last fault: poll in time."""
        options = {
            "bootstrap_servers": ADDRESS,
            "allow_auto_create_topics": True,  # the members create their topics
            "group_id": assignments.group_id,
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
                await asyncio.sleep(self.random.uniform(0, 20))  # slow, perhaps too slow
            await asyncio.sleep(self.random.uniform(0, 0.5))
        if (event := self.member.revoke_all()) is not None:
            await self._handle(event)
        await self.member.leave("the simulation is over", for_good=self.random.random() < 0.5)
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
                self.assignments.assigned(self, partition, self.member.metadata.generation)
        elif self.random.random() < 0.3:
            await self._commit()
        if self.random.random() < 0.2:
            await asyncio.sleep(self.random.uniform(0, 1))  # a slow listener
        if not isinstance(event, Assigned):
            for partition in event.partitions:  # type: ignore[attr-defined]
                self.assignments.revoked(self, partition)
        self.member.acknowledge(event)  # type: ignore[arg-type]

    async def _commit(self) -> None:
        self.position += 1
        mine = self.member.owned
        others = [each for each in mine if self.assignments.last_given[each] is not self]
        try:
            await self.member.commit({each: Offset(self.position, -1, self.name) for each in mine})
        except (errors.CommitFailed, errors.RebalanceInProgress, errors.TimedOut, errors.NoBrokersAvailable):
            self.assignments.refused += 1
        else:
            self.assignments.commits += 1
            if others:
                raise BrokenPromise(f"{self.name} committed for {others}, which are assigned to others")

    async def crash(self) -> None:
        """Like a killed process."""
        self.assignments.closed(self)
        await self.member._stop()
        await self.client.close()


class Scenario:
    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.simulation = simulation
        self.random = random.Random(f"{seed}/client groups")
        self.assignments = AssignmentLog("billing")
        protocol = self.random.choice(("classic", "consumer"))
        self.options: dict[str, object] = {"group_protocol": protocol}
        if protocol == "classic":
            self.options["partition_assignment_strategy"] = self.random.choice(STRATEGIES)
            self.options["session_timeout_ms"] = 6_000
            self.options["heartbeat_interval_ms"] = 1_000
        self.applications: dict[Application, asyncio.Task[None]] = {}
        self.count = 0
        self.partitions = 5

    async def run(self, simulation: Simulation) -> None:
        await simulation.start()
        slow_chance = asyncio.create_task(self._inject_faults())
        await slow_chance
        for application in self.applications:
            application.is_patient = True
        while len(self.applications) < 2:
            self._add_member()
            list(self.applications)[-1].is_patient = True
        await self._settle()
        assert self.assignments.commits, "no commit succeeded"
        for application, task in self.applications.items():
            application.is_leaving = True
            await task

    def _add_member(self) -> None:
        self.count += 1
        options = dict(self.options)
        if self.random.random() < 0.25:
            options["group_instance_id"] = f"static-{self.count}"
        rng = random.Random(self.random.random())
        application = Application(self.simulation, f"member-{self.count}", self.assignments, options, rng)
        self.applications[application] = asyncio.create_task(application.run())

    async def _inject_faults(self) -> None:
        until = self.simulation.loop.time() + FAULTS_S
        self._add_member()
        while self.simulation.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0, 3))
            self._check()
            match self.random.randrange(8):
                case 0 | 1 | 2 if len(self.applications) < 6:
                    self._add_member()
                case 3 if self.applications:
                    application = self.random.choice(list(self.applications))
                    application.is_leaving = True
                    await self.applications.pop(application)
                case 4 if self.applications:
                    application = self.random.choice(list(self.applications))
                    task = self.applications.pop(application)
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    await application.crash()
                case 5:
                    await self._end_broker()
                case 6:
                    await self._grow()

    def _check(self) -> None:
        raise_errors(self.applications.values())

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
            held = [each for application in self.applications for each in application.member.owned]
            if wanted and len(wanted) >= 10 and sorted(held) == sorted(wanted):
                break
            if self.simulation.loop.time() > until:
                owned = {each.name: sorted(each.member.owned) for each in self.applications}
                raise BrokenPromise(
                    f"the group did not settle: topics have {sorted(wanted)}, members own {owned}"
                )
        connection.close()


def test_members_share_the_partitions_through_all_faults(seed: int) -> None:
    simulation = Simulation(seed, settings=BROKER)
    simulation.run(lambda simulation: Scenario(simulation, seed).run(simulation))
