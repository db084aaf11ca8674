"""Writes to several partitions in a transaction, and reads committed records in between."""

from __future__ import annotations

from simulator.transactions.instance import ProducerInstance
from simulator.transactions.shared import TOPICS, MustAbort

COMMIT_CHANCE = 0.65
RECOVER_CHANCE = 0.05


class Writer(ProducerInstance):
    async def run_transaction(self) -> None:
        rng = self.random
        targets = await self.find_targets()
        if not targets:
            return
        transaction = self.begin()
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.4:
                found = await self.poll(rng.choice(self.partitions_of(*TOPICS)))
                transaction.reads += found[0] if found is not None else []
            self.add_some(targets)
            if rng.random() < 0.08:
                raise MustAbort  # with unsent records, which may arrive late
            await self.flush()
            await self.work_slowly()
        if rng.random() < COMMIT_CHANCE:
            await self.end(commits=True)
        elif rng.random() < RECOVER_CHANCE:
            self.transaction = None
            await self.init(recovers=True)  # this aborts the open transaction
        else:
            await self.end(commits=False)
