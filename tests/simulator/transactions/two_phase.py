"""A producer for two-phase commit (KIP-939): it prepares, may crash, and completes the transaction after a restart.

It stores the prepared transaction as in a database, which survives a crash. A prepared transaction has no timeout:
only its producer ends it, or an operator who aborts it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from simulator.simulation import BrokenPromise
from simulator.transactions.history import Outcome, Transaction
from simulator.transactions.identity import Identity
from simulator.transactions.instance import ProducerInstance
from simulator.transactions.producer_workload import ProducerWorkload
from simulator.transactions.shared import SharedState

CRASH_CHANCE = 0.5
CRASHED_S = 3600.0  # longer than the simulation
OPERATOR_CHANCE = 0.15


@dataclass(slots=True)
class Prepared:
    transaction: Transaction
    producer_id: int
    epoch: int
    commits: bool
    """What the external coordinator decided."""
    is_end_asked: bool = False


@dataclass(slots=True)
class PreparedStore:
    prepared: Prepared | None = None


class TwoPhaseProducer(ProducerInstance):
    HAS_TWO_PHASES = True

    def __init__(self, shared: SharedState, identity: Identity, name: str, *, store: PreparedStore) -> None:
        super().__init__(shared, identity, name)
        self._store = store

    async def initialize(self) -> None:
        """Get a producer id and complete the prepared transaction."""
        prepared = self._store.prepared
        if prepared is not None and not prepared.is_end_asked and self.random.random() < OPERATOR_CHANCE:
            self.note(f"aborts the prepared {prepared.transaction.name}")
            prepared.transaction.outcome = Outcome.ABORTED
            self._store.prepared = None
            await self.init()
            return
        response = await self.init(keeps_prepared=True)
        ongoing = response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
        prepared = self._store.prepared
        if prepared is not None and ongoing == (prepared.producer_id, prepared.epoch):
            await self._complete(prepared)
        elif prepared is not None and ongoing == (-1, -1) and prepared.is_end_asked:
            self._ended(prepared)
        elif prepared is not None:
            raise BrokenPromise(
                f"{self.name} prepared {prepared}, but the coordinator says that {ongoing} is open"
            )
        elif ongoing != (-1, -1):
            self.begin()
            self._start()
            await self.end(commits=False)

    async def run_transaction(self) -> None:
        rng = self.random
        targets = await self.find_targets()
        if not targets:
            return
        transaction = self.begin()
        for _ in range(rng.randint(1, 2)):
            self.add_some(targets)
            await self.flush()
            await self.work_slowly()
        self.transaction = None
        prepared = Prepared(transaction, self.producer_id, self.epoch, commits=rng.random() < 0.7)
        self._store.prepared = prepared
        self.note(f"has prepared {transaction.name}")
        if rng.random() < CRASH_CHANCE:
            self.note("crashes with it")
            self.disconnect()
            await asyncio.sleep(CRASHED_S)
        await self.pause()
        await self._complete(prepared)

    async def _complete(self, prepared: Prepared) -> None:
        prepared.is_end_asked = True
        await self.end_started(prepared.transaction, commits=prepared.commits)
        self._ended(prepared)

    def _ended(self, prepared: Prepared) -> None:
        prepared.transaction.outcome = Outcome.COMMITTED if prepared.commits else Outcome.ABORTED
        self._store.prepared = None


class TwoPhaseWorkload(ProducerWorkload):
    """Its instances do not overlap, because the store has one owner. The last one leaves its transaction open."""

    OVERLAPS = False

    def __init__(self, shared: SharedState, transactional_id: str) -> None:
        self.store = PreparedStore()
        super().__init__(shared, transactional_id, self._make)

    def _make(self, shared: SharedState, identity: Identity, name: str) -> ProducerInstance:
        return TwoPhaseProducer(shared, identity, name, store=self.store)

    async def run(self) -> None:
        await super().run()
        for instance in list(self._instances):
            self.crash_instance(instance)

    def finish(self) -> None:
        """Start once more, to end the open transaction and stop."""
        self.start_instance().is_leaving = True
