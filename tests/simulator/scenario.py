"""Runs one seed, from the first start of an empty node to the last audit.

    report = run_seed(17)

raises `BrokenPromise`, with the last lines of the trace, if the node broke a promise. This module draws everything
else of a seed: directories, settings, topics, clients, and the duration.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from penstock.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records.control import end_transaction_batch
from simulator.chaos import LIFE_S_MAX, RARE_CHANGES, START_OFFSETS_MS, Chaos
from simulator.checks.auditor import Auditor
from simulator.checks.catalogue import Catalogue
from simulator.checks.ledger import Ledger
from simulator.clients.administrators import Administrator
from simulator.clients.client import LostConnection
from simulator.clients.consumers import Reader
from simulator.clients.producers import IdempotentProducer, PlainProducer
from simulator.groups.committer import Committer
from simulator.groups.group import SimulatedGroup
from simulator.groups.inspector import Inspector
from simulator.groups.setup import draw_group_settings, make_committer, make_group_workloads
from simulator.groups.workload import GroupWorkload
from simulator.simulation import BrokenPromise, End, Simulation
from simulator.transactions.shared import TOPICS as TRANSACTION_TOPICS
from simulator.transactions.workload import TransactionWorkload, draw_transaction_settings

T = TypeVar("T")
Client = IdempotentProducer | PlainProducer | Reader | Committer

STABLE_TOPICS = ("durable-orders", "cached-clicks", "durable-expiring")
"""Topics that exist for the whole scenario."""
RECREATED_TOPICS = ("durable-passing", "cached-passing")
"""Topics that are created, deleted and created again."""

GROUPS_CHANCE = 0.4
TRANSACTIONS_CHANCE = 0.5  # of the seeds without groups
MARKER_BYTES = len(
    end_transaction_batch(
        is_commit=True, producer_id=0, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
)
TRANSACTION_CHANGES = (
    *[f"append {MARKER_BYTES} bytes"] * 3,
    *[f"/{TRANSACTIONS_TOPIC}-"] * 2,
    f"/{OFFSETS_TOPIC}-",
    ".txnindex",
)
"""Disk changes of coordinators. A crash after one of them comes between a decision and its markers, or between two
markers."""
CHAOS_S_MAX = 9.0
DELAY_S_MAX_OF_GROUPS = 0.02  # group timeouts are short, so a stalling disk would hide all other faults
DRAIN_S_MAX = 300.0  # how long clients may take to finish after the last fault
RECOVERY_S_MAX = 60.0  # how long a log may withhold records after a crash, until they are synced
RETRIABLE = (
    ErrorCode.OFFSET_NOT_AVAILABLE,  # a log withholds records after a crash until they are synced
    ErrorCode.OFFSET_OUT_OF_RANGE,  # records expired during the read
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
LINES_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    fingerprint: str
    events: int
    lives: int
    acknowledged: int
    commits: int
    """Acknowledged offset commits."""
    transactions: int
    """Committed transactions, as far as their clients know."""
    virtual_s: float


def run_seed(
    seed: int,
    *,
    has_groups: bool | None = None,
    has_transactions: bool | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Report:
    """Some seeds have groups, some have transactions. The arguments override the seed."""
    groups_random = random.Random(f"{seed}/settings of groups")
    transactions_random = random.Random(f"{seed}/settings of transactions")
    if has_groups is None:
        has_groups = groups_random.random() < GROUPS_CHANCE and not has_transactions
    if has_transactions is None:
        has_transactions = transactions_random.random() < TRANSACTIONS_CHANCE and not has_groups
    settings = draw_settings(random.Random(f"{seed}/settings"))
    if has_groups:
        settings |= draw_group_settings(groups_random)
    if has_transactions:
        settings |= draw_transaction_settings(transactions_random)
    simulation = Simulation(seed, settings=settings)
    simulation.trace.on_line = on_line
    scenario = Scenario(simulation, has_groups=has_groups, has_transactions=has_transactions)
    try:
        simulation.run(lambda _: scenario.run())
    except Exception as error:
        lines = list(simulation.trace.lines)[-LINES_SHOWN:]
        error.add_note("\n".join([f"seed {seed}; the last events:", *lines]))
        raise
    return Report(
        seed=seed,
        fingerprint=simulation.trace.fingerprint(),
        events=simulation.trace.count,
        lives=simulation.lives,
        acknowledged=scenario.ledger.acknowledged_count(),
        commits=sum(group.offsets.acknowledged_count for group in scenario.groups),
        transactions=scenario.transactions.committed_count() if scenario.transactions is not None else 0,
        virtual_s=simulation.loop.time(),
    )


def draw_settings(rng: random.Random) -> dict[str, str]:
    log_dirs = ["/disk-a", "/disk-b", "/disk-c"][: rng.randint(1, 3)]
    settings = {
        "log.dirs": ",".join(log_dirs),
        "auto.create.topics.enable": "false",
        "log.initial.task.delay.ms": "100",
        "log.retention.check.interval.ms": "400",
        "log.flush.offset.checkpoint.interval.ms": rng.choice(("50", "200", "2000")),
        "log.flush.start.offset.checkpoint.interval.ms": str(START_OFFSETS_MS),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(("200", "5000")),
        "num.recovery.threads.per.data.dir": rng.choice(("1", "2")),
    }
    if rng.random() < 0.3:
        settings["metadata.log.dir"] = "/disk-of-metadata"
    return settings


class Scenario:
    def __init__(self, simulation: Simulation, *, has_groups: bool, has_transactions: bool) -> None:
        self.simulation = simulation
        self.ledger = Ledger()
        self.catalogue = Catalogue()
        rng = simulation.random
        simulation.worker_delay_s_max = rng.choice((0.002, 0.02, 0.1))
        log_dirs = simulation.properties["log.dirs"].split(",")
        if (metadata := simulation.properties.get("metadata.log.dir")) is not None:
            log_dirs.append(metadata)
        seconds = rng.uniform(4, CHAOS_S_MAX)
        time_factor = 2 if has_groups or has_transactions else 1  # members need time to join and to leave
        self.chaos = Chaos(
            simulation,
            self.ledger,
            log_dirs=log_dirs,
            seconds=time_factor * seconds,
            life_s_max=time_factor * LIFE_S_MAX,
            rare_changes=TRANSACTION_CHANGES if has_transactions else RARE_CHANGES,
        )
        conditions = self.chaos.conditions
        self._topic_creator = self._administrator("founder", STABLE_TOPICS, deletes=False)
        self._keeper = self._administrator("keeper", RECREATED_TOPICS, deletes=True)
        self._auditor = Auditor(simulation, "auditor", self.ledger)
        self._clients = (
            self._make_few_clients() if has_groups or has_transactions else self._make_many_clients()
        )
        self._inspector = Inspector(simulation, "inspector")
        self.group_workloads: list[GroupWorkload] = []
        self.groups: list[SimulatedGroup] = []
        if has_groups:
            self.group_workloads = make_group_workloads(simulation, STABLE_TOPICS, self.ledger, conditions)
            committer = make_committer(simulation, STABLE_TOPICS, self.ledger, conditions)
            self._clients.append(committer)
            self.groups = [*[workload.group for workload in self.group_workloads], committer.group]
        self.chaos.on_end += [group.node_ended for group in self.groups]
        self.transactions: TransactionWorkload | None = None
        self._administrators = {self._topic_creator: STABLE_TOPICS, self._keeper: RECREATED_TOPICS}
        if has_transactions:
            self.transactions = TransactionWorkload(simulation, self.ledger, conditions)
            notary = self._administrator("notary", TRANSACTION_TOPICS, deletes=False)
            self._administrators[notary] = TRANSACTION_TOPICS
            self.chaos.on_end.append(self.transactions.node_ended)

    def _make_many_clients(self) -> list[Client]:
        conditions = self.chaos.conditions
        durable, cached, expiring = STABLE_TOPICS
        return [
            IdempotentProducer(self.simulation, "idempotent-1", durable, self.ledger, conditions),
            IdempotentProducer(self.simulation, "idempotent-2", durable, self.ledger, conditions),
            IdempotentProducer(self.simulation, "idempotent-3", cached, self.ledger, conditions),
            PlainProducer(self.simulation, "plain-all", durable, self.ledger, conditions, acks=-1),
            PlainProducer(self.simulation, "plain-one", durable, self.ledger, conditions, acks=1),
            PlainProducer(self.simulation, "plain-none", cached, self.ledger, conditions, acks=0),
            PlainProducer(self.simulation, "plain-cached", cached, self.ledger, conditions, acks=1),
            PlainProducer(self.simulation, "plain-expiring", expiring, self.ledger, conditions, acks=-1),
            PlainProducer(
                self.simulation, "passing-1", RECREATED_TOPICS[0], self.ledger, conditions, acks=-1
            ),
            PlainProducer(
                self.simulation, "passing-2", RECREATED_TOPICS[1], self.ledger, conditions, acks=-1
            ),
            Reader(self.simulation, "reader-1", STABLE_TOPICS, self.ledger, conditions),
            Reader(self.simulation, "reader-2", STABLE_TOPICS + RECREATED_TOPICS, self.ledger, conditions),
        ]

    def _make_few_clients(self) -> list[Client]:
        """Fewer clients, next to groups, which add load themselves."""
        conditions = self.chaos.conditions
        durable, cached, _ = STABLE_TOPICS
        return [
            PlainProducer(self.simulation, "plain-all", durable, self.ledger, conditions, acks=-1),
            PlainProducer(self.simulation, "plain-cached", cached, self.ledger, conditions, acks=1),
            Reader(self.simulation, "reader", STABLE_TOPICS, self.ledger, conditions),
        ]

    def _administrator(self, name: str, topics: tuple[str, ...], *, deletes: bool) -> Administrator:
        return Administrator(
            self.simulation, name, topics, self.catalogue, self.ledger, self.chaos.conditions, deletes=deletes
        )

    async def run(self) -> None:
        work = asyncio.gather(
            self.chaos.run(),
            *[administrator.run() for administrator in self._administrators],
            self._audit_repeatedly(),
            *[client.run() for client in self._clients],
            *[workload.run() for workload in self.group_workloads],
            *[
                client.run()
                for client in (self.transactions.clients if self.transactions is not None else ())
            ],
        )
        try:
            await asyncio.wait_for(work, 2 * CHAOS_S_MAX + DRAIN_S_MAX)
        except TimeoutError:
            raise BrokenPromise("clients did not finish after the last fault") from None
        if self.transactions is not None:
            await self.transactions.finish()
        await self._check_writable()
        await self._audit_everything()
        await self._end_node()
        await self.chaos.bring_up()
        await self._audit_everything()

    async def _check_writable(self) -> None:
        """After the last fault topics can be created and records written, even if neither was possible before."""
        await asyncio.sleep(self.simulation.settle_s)
        for topic in STABLE_TOPICS:
            await _retry(self._topic_creator.ensure_exists, topic)
        for client in self._clients:
            if isinstance(client, PlainProducer) and client.topic in STABLE_TOPICS and client.acks != 0:
                await _retry(client.check_writable)

    async def _audit_repeatedly(self) -> None:
        """Audit the stable topics while everything else goes on."""
        while not self.chaos.conditions.is_over():
            await asyncio.sleep(self._auditor.random.uniform(0.5, 3))
            try:
                for topic in STABLE_TOPICS:
                    found = await self._auditor.find_topic(topic)
                    topic_id, partition_count = found or (ZERO_UUID, 0)
                    for index in range(partition_count):
                        await self._auditor.audit(topic, topic_id, index)
            except LostConnection:
                continue

    async def _audit_everything(self) -> None:
        """When nothing is in progress: audit every topic, setting and record."""
        await asyncio.sleep(self.simulation.settle_s)
        for administrator, topics in self._administrators.items():
            for topic in topics:
                await _retry(administrator.check_topic, topic)
        for found in (await _retry(self._auditor.metadata)).topics:
            if found.name in self._unaudited_topics:
                continue
            if found.name not in STABLE_TOPICS + RECREATED_TOPICS:
                raise BrokenPromise(f"topic {found.name} was never created")
            for index in range(len(found.partitions)):
                await self._audit_partition(found.name, found.topic_id, index)
        for group in self.groups:
            await self._audit_until_answered(
                f"offsets of group {group.group_id}", self._inspector.audit_offsets, group
            )
        if self.transactions is not None:
            await self.transactions.audit()

    @property
    def _unaudited_topics(self) -> tuple[str, ...]:
        """Topics that the ledger does not cover."""
        if self.transactions is not None:
            return (*TRANSACTION_TOPICS, TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
        return (OFFSETS_TOPIC,) if self.group_workloads else ()

    async def _audit_partition(self, topic: str, topic_id: Uuid, index: int) -> None:
        audit = partial(self._auditor.audit, topic, topic_id, index, is_quiet=True)
        await self._audit_until_answered(f"{topic}-{index}", audit)

    async def _audit_until_answered(
        self, what: str, audit: Callable[..., Awaitable[ErrorCode]], *arguments: Any
    ) -> None:
        until = self.simulation.loop.time() + RECOVERY_S_MAX
        error = RETRIABLE[0]
        while error in RETRIABLE and self.simulation.loop.time() < until:
            error = await _retry(audit, *arguments)
            await asyncio.sleep(0.1)
        if error != ErrorCode.NONE:
            raise BrokenPromise(f"{what} cannot be read: {error.name}")

    async def _end_node(self) -> None:
        how = self.simulation.random.choice(list(End))
        if how is End.STOPPED:
            await self.simulation.stop()
        else:
            self.simulation.crash(loses_power=how is End.LOST_POWER)


async def _retry(ask: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Repeat until answered: the connection may have been lost long before."""
    while True:
        with contextlib.suppress(LostConnection):
            return await ask(*arguments)
