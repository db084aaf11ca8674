"""The transactions of one seed: who acts in them, and the node's settings for it."""

from __future__ import annotations

import asyncio
import random
from functools import partial

from penstock.testing.groups.assignment import COOPERATIVE, RANGE, ROUND_ROBIN
from penstock.testing.groups.cast import CONSUMER_HEARTBEAT_MS, CONSUMER_SESSION_MS, draw_group_settings
from penstock.testing.groups.claims import Claims
from penstock.testing.groups.member import Member
from penstock.testing.groups.offsets import CommittedOffsets
from penstock.testing.groups.party import Party
from penstock.testing.groups.troupe import Troupe
from penstock.testing.ledger import Ledger
from penstock.testing.producers import Weather
from penstock.testing.simulation import BrokenPromise, End, Simulation
from penstock.testing.transactions.actor import Actor
from penstock.testing.transactions.auditor import TransactionAuditor
from penstock.testing.transactions.ghost import Ghost
from penstock.testing.transactions.history import History, Outcome, Partition
from penstock.testing.transactions.performer import TIMEOUTS_MS
from penstock.testing.transactions.pipeline import Pipeline
from penstock.testing.transactions.reader import CommittedReader, UncommittedReader
from penstock.testing.transactions.stage import PAYMENTS, Stage
from penstock.testing.transactions.two_phase import TwoPhaseActor
from penstock.testing.transactions.worker import ClassicWorker, ConsumerWorker, Worker
from penstock.testing.transactions.writer import Writer

LONERS, WORKERS = "loners", "workers"
"""Groups: one of pipelines that are no members, and one of members."""
PIPELINES = 2
PARTITIONS_MAX = 4
WORKERS_CHANCE = 0.7
DRAIN_S_MAX = 60.0  # how long clients may take to finish when nothing goes wrong any more
PREPARED_WAITS_S = 3 * max(TIMEOUTS_MS) / 1000  # longer than anything that is not prepared


def draw_transaction_settings(rng: random.Random) -> dict[str, str]:
    """Everything a hundred times faster than in life. What is not flushed would not be there after a power cut, and
    with it the end of a transaction in one partition and not in another: so everything is."""
    return draw_group_settings(rng) | {
        "log.flush.interval.messages": "1",
        "transaction.state.log.num.partitions": rng.choice(("1", "3")),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice(("50", "200", "500")),
        "transaction.two.phase.commit.enable": "true",
    }


class Company:
    """All clients of transactions of one simulation."""

    def __init__(self, simulation: Simulation, ledger: Ledger, weather: Weather) -> None:
        self.stage = Stage(simulation, History(), weather)
        rng = simulation.generator("transactions")
        sources: list[Partition] = [(PAYMENTS, index) for index in range(PIPELINES)]
        self._groups = [(LONERS, source) for source in sources]
        self._groups += [(WORKERS, (PAYMENTS, index)) for index in range(PARTITIONS_MAX)]
        self._actors = [Actor(self.stage, f"writer-{number}", Writer) for number in range(rng.randint(1, 3))]
        self._actors += [
            Actor(self.stage, f"pipeline-{source[1]}", partial(Pipeline, source=source, group_id=LONERS))
            for source in sources
        ]
        self._prudent = TwoPhaseActor(self.stage, "two-phase")
        self._readers = [
            CommittedReader(self.stage, "committed-1"),
            CommittedReader(self.stage, "committed-2"),
            UncommittedReader(self.stage, "uncommitted"),
        ]
        self._ghost = Ghost(self.stage, "ghost")
        self._troupes: list[Troupe] = []
        if rng.random() < WORKERS_CHANCE:
            self._troupes.append(_cast_workers(self.stage, ledger, rng))
        self._auditor = TransactionAuditor(self.stage, "transaction-auditor")

    @property
    def performers(self) -> list[Actor | UncommittedReader | Troupe | Ghost]:
        """All that have to be run."""
        return [*self._actors, self._prudent, *self._readers, *self._troupes, self._ghost]

    def node_ended(self, end: End) -> None:
        for troupe in self._troupes:
            troupe.party.node_ended(end)

    async def finish(self) -> None:
        """When nothing goes wrong any more: wait until what was left open is ended."""
        await self._wait_for_tasks()
        prudent = self._prudent.identity.transactional_id
        await self._auditor.wait_until_ended(within_s=self._patience_s, but=[prudent])
        if self._prudent.vault.prepared is not None and not self._prudent.vault.prepared.is_end_asked:
            await asyncio.sleep(PREPARED_WAITS_S)
            if not await self._auditor.is_open(prudent):
                raise BrokenPromise(f"{prudent} had prepared a transaction, and it is open no more")
        self._prudent.finish()
        await self._wait_for_tasks()
        await self._auditor.wait_until_ended(within_s=self._patience_s)

    async def audit(self) -> None:
        await self._auditor.audit(self._groups)

    def committed_count(self) -> int:
        return self.stage.history.count(Outcome.COMMITTED)

    @property
    def _patience_s(self) -> float:
        """So long the coordinator may take to end what nobody ends, whatever became of its clock meanwhile."""
        return max(TIMEOUTS_MS) / 1000 + 2 + 4 * self.stage.simulation.settle_s

    async def _wait_for_tasks(self) -> None:
        until = self.stage.simulation.loop.time() + DRAIN_S_MAX
        while self.stage.tasks:
            await asyncio.sleep(0.1)
            self.stage.look_after_tasks()
            if self.stage.simulation.loop.time() > until:
                names = [task.get_name() for task in self.stage.tasks]
                raise BrokenPromise(f"{names} can not finish, though nothing goes wrong any more")


def _cast_workers(stage: Stage, ledger: Ledger, rng: random.Random) -> Troupe:
    simulation = stage.simulation
    is_classic, is_cooperative = rng.random() < 0.5, rng.random() < 0.5
    protocols = (COOPERATIVE,) if is_cooperative else (RANGE, ROUND_ROBIN)
    party = Party(
        group_id=WORKERS,
        topics=(PAYMENTS,),
        claims=Claims(WORKERS),
        offsets=CommittedOffsets(WORKERS),
        ledger=ledger,
        weather=stage.weather,
        is_durable=True,
        session_s=CONSUMER_SESSION_MS / 1000,
        rebalance_s=rng.choice((0.8, 2.0)),
        heartbeat_s=CONSUMER_HEARTBEAT_MS / 1000,
        now=simulation.loop.time,
    )

    def make(name: str, instance_id: str | None) -> Member:
        worker: Worker = (
            ClassicWorker(simulation, name, party, protocols=protocols, instance_id=instance_id)
            if is_classic
            else ConsumerWorker(simulation, name, party, instance_id=instance_id)
        )
        worker.employ(stage)
        return worker

    return Troupe(simulation, party, make)
