"""A producer whose commits are decided elsewhere (KIP-939): it prepares, may vanish, and completes when it is back.

What it has prepared it writes down in its vault, which outlives it as a database would. A prepared transaction waits
for as long as it takes: nobody but its owner, or an operator who gives it up, ends it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.actor import Actor
from penstock.testing.transactions.history import Outcome, Transaction
from penstock.testing.transactions.identity import Identity
from penstock.testing.transactions.performer import Performer
from penstock.testing.transactions.stage import Stage

VANISH_CHANCE = 0.5
VANISHED_S = 3600.0  # until the stage is cleared
OPERATOR_CHANCE = 0.15


@dataclass(slots=True)
class Prepared:
    transaction: Transaction
    producer_id: int
    epoch: int
    commits: bool
    """What was decided elsewhere."""
    is_end_asked: bool = False


@dataclass(slots=True)
class Vault:
    prepared: Prepared | None = None


class TwoPhaseProducer(Performer):
    HAS_TWO_PHASES = True

    def __init__(self, stage: Stage, identity: Identity, name: str, *, vault: Vault) -> None:
        super().__init__(stage, identity, name)
        self._vault = vault

    async def prepare(self) -> None:
        """Come to life, and complete what was prepared before."""
        prepared = self._vault.prepared
        if prepared is not None and not prepared.is_end_asked and self.random.random() < OPERATOR_CHANCE:
            self.note(f"gives {prepared.transaction.name} up")
            prepared.transaction.outcome = Outcome.ABORTED
            self._vault.prepared = None
            await self.init()
            return
        response = await self.init(keeps_prepared=True)
        ongoing = response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
        prepared = self._vault.prepared
        if prepared is not None and ongoing == (prepared.producer_id, prepared.epoch):
            await self._complete(prepared)
        elif prepared is not None and ongoing == (-1, -1) and prepared.is_end_asked:
            self._ended(prepared)
        elif prepared is not None:
            raise BrokenPromise(f"{self.name} prepared {prepared}, and is told that {ongoing} is open")
        elif ongoing != (-1, -1):
            self.begin()
            self._start()
            await self.end(commits=False)

    async def perform(self) -> None:
        rng = self.random
        targets = await self.find_targets()
        if not targets:
            return
        transaction = self.begin()
        for _ in range(rng.randint(1, 2)):
            self.add_some(targets)
            await self.flush()
            await self.dawdle()
        self.transaction = None
        prepared = Prepared(transaction, self.producer_id, self.epoch, commits=rng.random() < 0.7)
        self._vault.prepared = prepared
        self.note(f"has prepared {transaction.name}")
        if rng.random() < VANISH_CHANCE:
            self.note("vanishes with it")
            self.hang_up()
            await asyncio.sleep(VANISHED_S)
        await self.pause()
        await self._complete(prepared)

    async def _complete(self, prepared: Prepared) -> None:
        prepared.is_end_asked = True
        await self.end_started(prepared.transaction, commits=prepared.commits)
        self._ended(prepared)

    def _ended(self, prepared: Prepared) -> None:
        prepared.transaction.outcome = Outcome.COMMITTED if prepared.commits else Outcome.ABORTED
        self._vault.prepared = None


class TwoPhaseActor(Actor):
    """Its incarnations follow one another, because the vault has one owner. The last leaves open what it has begun."""

    OVERLAPS = False

    def __init__(self, stage: Stage, transactional_id: str) -> None:
        self.vault = Vault()
        super().__init__(stage, transactional_id, self._make)

    def _make(self, stage: Stage, identity: Identity, name: str) -> Performer:
        return TwoPhaseProducer(stage, identity, name, vault=self.vault)

    async def run(self) -> None:
        await super().run()
        for performer in list(self._present):
            self.vanish(performer)

    def finish(self) -> None:
        """Somebody comes once more, ends what was left, and goes."""
        self.appear().is_leaving = True
