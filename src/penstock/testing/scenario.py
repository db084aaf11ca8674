"""One seed, from the first start of an empty node to the last audit: who writes, who reads, and what goes wrong.

    report = run_seed(17)

raises `BrokenPromise`, with the last lines of what happened, if the node broke one. Everything else about
the seed is drawn here: directories, settings, topics, clients, and how long it goes on.
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
from penstock.testing.administrators import Administrator
from penstock.testing.auditor import Auditor
from penstock.testing.catalogue import Catalogue
from penstock.testing.chaos import LIFE_S_MAX, RARE_CHANGES, START_OFFSETS_MS, Chaos
from penstock.testing.client import LostConnection
from penstock.testing.consumers import Reader
from penstock.testing.groups.cast import cast_committer, cast_groups, draw_group_settings
from penstock.testing.groups.committer import Committer
from penstock.testing.groups.inspector import Inspector
from penstock.testing.groups.party import Party
from penstock.testing.groups.troupe import Troupe
from penstock.testing.ledger import Ledger
from penstock.testing.producers import IdempotentProducer, PlainProducer
from penstock.testing.simulation import BrokenPromise, End, Simulation
from penstock.testing.transactions.cast import Company, draw_transaction_settings
from penstock.testing.transactions.stage import TOPICS as TRANSACTION_TOPICS

T = TypeVar("T")
Client = IdempotentProducer | PlainProducer | Reader | Committer

STABLE_TOPICS = ("durable-orders", "cached-clicks", "durable-expiring")
"""There from the beginning to the end."""
PASSING_TOPICS = ("durable-passing", "cached-passing")
"""Made, deleted and made again."""

GROUPS_CHANCE = 0.4
TRANSACTIONS_CHANCE = 0.5  # of those without groups
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
"""A coordinator that dies after one of these, dies between deciding and telling everybody, or between two markers."""
CHAOS_S_MAX = 9.0
DELAY_S_MAX_OF_GROUPS = (
    0.02  # their timeouts are short, and a disk that stalls must not be the only thing they meet
)
DRAIN_S_MAX = 300.0  # how long clients may take to finish when nothing goes wrong any more
RECOVERY_S_MAX = 60.0  # how long a log may hold back what a crash left, until it is synced
NOT_YET = (
    ErrorCode.OFFSET_NOT_AVAILABLE,  # a log holds back what a crash left until it is synced
    ErrorCode.OFFSET_OUT_OF_RANGE,  # records expired while they were read
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
    """Of offsets, that were acknowledged."""
    transactions: int
    """That were committed, as far as their clients know."""
    virtual_s: float


def run_seed(
    seed: int,
    *,
    has_groups: bool | None = None,
    has_transactions: bool | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Report:
    """Some seeds have groups in them, and some transactions; the arguments decide it instead of the seed."""
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
        error.add_note("\n".join([f"seed {seed}; the last that happened:", *lines]))
        raise
    return Report(
        seed=seed,
        fingerprint=simulation.trace.fingerprint(),
        events=simulation.trace.count,
        lives=simulation.lives,
        acknowledged=scenario.ledger.acknowledged_count(),
        commits=sum(party.offsets.acknowledged_count for party in scenario.parties),
        transactions=scenario.company.committed_count() if scenario.company is not None else 0,
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
        slowness = (
            2 if has_groups or has_transactions else 1
        )  # so that members have time to meet, and to part
        self.chaos = Chaos(
            simulation,
            self.ledger,
            log_dirs=log_dirs,
            seconds=slowness * seconds,
            life_s_max=slowness * LIFE_S_MAX,
            rare_changes=TRANSACTION_CHANGES if has_transactions else RARE_CHANGES,
        )
        weather = self.chaos.weather
        self._founder = self._administrator("founder", STABLE_TOPICS, deletes=False)
        self._keeper = self._administrator("keeper", PASSING_TOPICS, deletes=True)
        self._auditor = Auditor(simulation, "auditor", self.ledger)
        self._clients = self._cast_few() if has_groups or has_transactions else self._cast_many()
        self._inspector = Inspector(simulation, "inspector")
        self.troupes: list[Troupe] = []
        self.parties: list[Party] = []
        if has_groups:
            self.troupes = cast_groups(simulation, STABLE_TOPICS, self.ledger, weather)
            committer = cast_committer(simulation, STABLE_TOPICS, self.ledger, weather)
            self._clients.append(committer)
            self.parties = [*[troupe.party for troupe in self.troupes], committer.party]
        self.chaos.on_end += [party.node_ended for party in self.parties]
        self.company: Company | None = None
        self._administrators = {self._founder: STABLE_TOPICS, self._keeper: PASSING_TOPICS}
        if has_transactions:
            self.company = Company(simulation, self.ledger, weather)
            notary = self._administrator("notary", TRANSACTION_TOPICS, deletes=False)
            self._administrators[notary] = TRANSACTION_TOPICS
            self.chaos.on_end.append(self.company.node_ended)

    def _cast_many(self) -> list[Client]:
        weather = self.chaos.weather
        durable, cached, expiring = STABLE_TOPICS
        return [
            IdempotentProducer(self.simulation, "idempotent-1", durable, self.ledger, weather),
            IdempotentProducer(self.simulation, "idempotent-2", durable, self.ledger, weather),
            IdempotentProducer(self.simulation, "idempotent-3", cached, self.ledger, weather),
            PlainProducer(self.simulation, "plain-all", durable, self.ledger, weather, acks=-1),
            PlainProducer(self.simulation, "plain-one", durable, self.ledger, weather, acks=1),
            PlainProducer(self.simulation, "plain-none", cached, self.ledger, weather, acks=0),
            PlainProducer(self.simulation, "plain-cached", cached, self.ledger, weather, acks=1),
            PlainProducer(self.simulation, "plain-expiring", expiring, self.ledger, weather, acks=-1),
            PlainProducer(self.simulation, "passing-1", PASSING_TOPICS[0], self.ledger, weather, acks=-1),
            PlainProducer(self.simulation, "passing-2", PASSING_TOPICS[1], self.ledger, weather, acks=-1),
            Reader(self.simulation, "reader-1", STABLE_TOPICS, self.ledger, weather),
            Reader(self.simulation, "reader-2", STABLE_TOPICS + PASSING_TOPICS, self.ledger, weather),
        ]

    def _cast_few(self) -> list[Client]:
        """Beside groups, which do enough themselves."""
        weather = self.chaos.weather
        durable, cached, _ = STABLE_TOPICS
        return [
            PlainProducer(self.simulation, "plain-all", durable, self.ledger, weather, acks=-1),
            PlainProducer(self.simulation, "plain-cached", cached, self.ledger, weather, acks=1),
            Reader(self.simulation, "reader", STABLE_TOPICS, self.ledger, weather),
        ]

    def _administrator(self, name: str, topics: tuple[str, ...], *, deletes: bool) -> Administrator:
        return Administrator(
            self.simulation, name, topics, self.catalogue, self.ledger, self.chaos.weather, deletes=deletes
        )

    async def run(self) -> None:
        work = asyncio.gather(
            self.chaos.run(),
            *[administrator.run() for administrator in self._administrators],
            self._audit_again_and_again(),
            *[client.run() for client in self._clients],
            *[troupe.run() for troupe in self.troupes],
            *[performer.run() for performer in (self.company.performers if self.company is not None else ())],
        )
        try:
            await asyncio.wait_for(work, 2 * CHAOS_S_MAX + DRAIN_S_MAX)
        except TimeoutError:
            raise BrokenPromise("clients can not finish, though nothing goes wrong any more") from None
        if self.company is not None:
            await self.company.finish()
        await self._work_in_peace()
        await self._audit_everything()
        await self._end_once_more()
        await self.chaos.bring_up()
        await self._audit_everything()

    async def _work_in_peace(self) -> None:
        """When nothing goes wrong any more topics can be made, and records written, even if neither could until now."""
        await asyncio.sleep(self.simulation.settle_s)
        for topic in STABLE_TOPICS:
            await _insist(self._founder.provide, topic)
        for client in self._clients:
            if isinstance(client, PlainProducer) and client.topic in STABLE_TOPICS and client.acks != 0:
                await _insist(client.write_in_peace)

    async def _audit_again_and_again(self) -> None:
        """Stable topics, while everything else goes on."""
        while not self.chaos.weather.is_over():
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
        """When nothing is under way any more: every topic, every setting, every record."""
        await asyncio.sleep(self.simulation.settle_s)
        for administrator, topics in self._administrators.items():
            for topic in topics:
                await _insist(administrator.look, topic)
        for found in (await _insist(self._auditor.metadata)).topics:
            if found.name in self._topics_of_others:
                continue
            if found.name not in STABLE_TOPICS + PASSING_TOPICS:
                raise BrokenPromise(f"there is a topic {found.name} that nobody made")
            for index in range(len(found.partitions)):
                await self._audit_partition(found.name, found.topic_id, index)
        for party in self.parties:
            await self._audit_until_told(
                f"offsets of group {party.group_id}", self._inspector.audit_offsets, party
            )
        if self.company is not None:
            await self.company.audit()

    @property
    def _topics_of_others(self) -> tuple[str, ...]:
        """Topics that the ledger knows nothing about."""
        if self.company is not None:
            return (*TRANSACTION_TOPICS, TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
        return (OFFSETS_TOPIC,) if self.troupes else ()

    async def _audit_partition(self, topic: str, topic_id: Uuid, index: int) -> None:
        audit = partial(self._auditor.audit, topic, topic_id, index, is_quiet=True)
        await self._audit_until_told(f"{topic}-{index}", audit)

    async def _audit_until_told(
        self, what: str, audit: Callable[..., Awaitable[ErrorCode]], *arguments: Any
    ) -> None:
        until = self.simulation.loop.time() + RECOVERY_S_MAX
        error = NOT_YET[0]
        while error in NOT_YET and self.simulation.loop.time() < until:
            error = await _insist(audit, *arguments)
            await asyncio.sleep(0.1)
        if error != ErrorCode.NONE:
            raise BrokenPromise(f"{what} can not be read: {error.name}")

    async def _end_once_more(self) -> None:
        how = self.simulation.random.choice(list(End))
        if how is End.STOPPED:
            await self.simulation.stop()
        else:
            self.simulation.crash(loses_power=how is End.LOST_POWER)


async def _insist(ask: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Ask until there is an answer; a connection may have been lost long ago without anybody noticing."""
    while True:
        with contextlib.suppress(LostConnection):
            return await ask(*arguments)
