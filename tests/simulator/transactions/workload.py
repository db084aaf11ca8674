"""Draws the transactions of a seed: their clients, and the node's settings."""

from __future__ import annotations

import asyncio
import random
from functools import partial

from simulator.checks.ledger import Ledger
from simulator.clients.producers import Conditions
from simulator.groups.assignment import COOPERATIVE, RANGE, ROUND_ROBIN
from simulator.groups.group import SimulatedGroup
from simulator.groups.member import Member
from simulator.groups.offsets import CommittedOffsets
from simulator.groups.ownership import Ownership
from simulator.groups.setup import CONSUMER_HEARTBEAT_MS, CONSUMER_SESSION_MS, draw_group_settings
from simulator.groups.workload import GroupWorkload
from simulator.simulation import BrokenPromise, End, Simulation
from simulator.transactions.auditor import TransactionAuditor
from simulator.transactions.history import History, Outcome, Partition
from simulator.transactions.instance import TIMEOUTS_MS
from simulator.transactions.member import (
    ClassicTransactionalMember,
    ConsumerTransactionalMember,
    TransactionalMember,
)
from simulator.transactions.pipeline import Pipeline
from simulator.transactions.producer_workload import ProducerWorkload
from simulator.transactions.reader import CommittedReader, UncommittedReader
from simulator.transactions.shared import PAYMENTS, SharedState
from simulator.transactions.stale_coordinator import StaleCoordinator
from simulator.transactions.two_phase import TwoPhaseWorkload
from simulator.transactions.writer import Writer

STANDALONE, WORKERS = "loners", "workers"
"""Groups: one of pipelines that are not members, and one of members."""
PIPELINES = 2
PARTITIONS_MAX = 4
WORKERS_CHANCE = 0.7
DRAIN_S_MAX = 60.0  # how long clients may take to finish after the last fault
PREPARED_WAITS_S = 3 * max(TIMEOUTS_MS) / 1000  # longer than any timeout


def draw_transaction_settings(rng: random.Random) -> dict[str, str]:
    """Timeouts a hundred times shorter than usual. Everything is flushed: otherwise a power cut could take a marker in
    one partition and leave it in another."""
    return draw_group_settings(rng) | {
        "log.flush.interval.messages": "1",
        "transaction.state.log.num.partitions": rng.choice(("1", "3")),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice(("50", "200", "500")),
        "transaction.two.phase.commit.enable": "true",
    }


class TransactionWorkload:
    """All clients of transactions of one simulation."""

    def __init__(self, simulation: Simulation, ledger: Ledger, conditions: Conditions) -> None:
        self.shared = SharedState(simulation, History(), conditions)
        rng = simulation.generator("transactions")
        sources: list[Partition] = [(PAYMENTS, index) for index in range(PIPELINES)]
        self._groups = [(STANDALONE, source) for source in sources]
        self._groups += [(WORKERS, (PAYMENTS, index)) for index in range(PARTITIONS_MAX)]
        self._producers = [
            ProducerWorkload(self.shared, f"writer-{number}", Writer) for number in range(rng.randint(1, 3))
        ]
        self._producers += [
            ProducerWorkload(
                self.shared, f"pipeline-{source[1]}", partial(Pipeline, source=source, group_id=STANDALONE)
            )
            for source in sources
        ]
        self._two_phase = TwoPhaseWorkload(self.shared, "two-phase")
        self._readers = [
            CommittedReader(self.shared, "committed-1"),
            CommittedReader(self.shared, "committed-2"),
            UncommittedReader(self.shared, "uncommitted"),
        ]
        self._stale_coordinator = StaleCoordinator(self.shared, "stale-coordinator")
        self._group_workloads: list[GroupWorkload] = []
        if rng.random() < WORKERS_CHANCE:
            self._group_workloads.append(_make_member_workload(self.shared, ledger, rng))
        self._auditor = TransactionAuditor(self.shared, "transaction-auditor")

    @property
    def clients(self) -> list[ProducerWorkload | UncommittedReader | GroupWorkload | StaleCoordinator]:
        """Everything to run."""
        return [
            *self._producers,
            self._two_phase,
            *self._readers,
            *self._group_workloads,
            self._stale_coordinator,
        ]

    def node_ended(self, end: End) -> None:
        for workload in self._group_workloads:
            workload.group.node_ended(end)

    async def finish(self) -> None:
        """After the last fault: wait until open transactions have ended."""
        await self._wait_for_tasks()
        two_phase_id = self._two_phase.identity.transactional_id
        await self._auditor.wait_until_ended(within_s=self._ends_within_s, but=[two_phase_id])
        if self._two_phase.store.prepared is not None and not self._two_phase.store.prepared.is_end_asked:
            await asyncio.sleep(PREPARED_WAITS_S)
            if not await self._auditor.is_open(two_phase_id):
                raise BrokenPromise(f"{two_phase_id} had prepared a transaction, but it is not open any more")
        self._two_phase.finish()
        await self._wait_for_tasks()
        await self._auditor.wait_until_ended(within_s=self._ends_within_s)

    async def audit(self) -> None:
        await self._auditor.audit(self._groups)

    def committed_count(self) -> int:
        return self.shared.history.count(Outcome.COMMITTED)

    @property
    def _ends_within_s(self) -> float:
        """How long the coordinator may take to abort transactions of crashed clients, even if its clock jumped."""
        return max(TIMEOUTS_MS) / 1000 + 2 + 4 * self.shared.simulation.settle_s

    async def _wait_for_tasks(self) -> None:
        until = self.shared.simulation.loop.time() + DRAIN_S_MAX
        while self.shared.tasks:
            await asyncio.sleep(0.1)
            self.shared.raise_task_errors()
            if self.shared.simulation.loop.time() > until:
                names = [task.get_name() for task in self.shared.tasks]
                raise BrokenPromise(f"{names} did not finish after the last fault")


def _make_member_workload(shared: SharedState, ledger: Ledger, rng: random.Random) -> GroupWorkload:
    simulation = shared.simulation
    is_classic, is_cooperative = rng.random() < 0.5, rng.random() < 0.5
    protocols = (COOPERATIVE,) if is_cooperative else (RANGE, ROUND_ROBIN)
    group = SimulatedGroup(
        group_id=WORKERS,
        topics=(PAYMENTS,),
        ownership=Ownership(WORKERS),
        offsets=CommittedOffsets(WORKERS),
        ledger=ledger,
        conditions=shared.conditions,
        is_durable=True,
        session_s=CONSUMER_SESSION_MS / 1000,
        rebalance_s=rng.choice((0.8, 2.0)),
        heartbeat_s=CONSUMER_HEARTBEAT_MS / 1000,
        now=simulation.loop.time,
    )

    def make(name: str, instance_id: str | None) -> Member:
        member: TransactionalMember = (
            ClassicTransactionalMember(simulation, name, group, protocols=protocols, instance_id=instance_id)
            if is_classic
            else ConsumerTransactionalMember(simulation, name, group, instance_id=instance_id)
        )
        member.attach(shared)
        return member

    return GroupWorkload(simulation, group, make)
