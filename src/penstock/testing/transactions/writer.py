"""Writes to several partitions in a transaction, and reads in between what others have committed."""

from __future__ import annotations

from penstock.testing.transactions.performer import Performer
from penstock.testing.transactions.stage import TOPICS, MustAbort

COMMIT_CHANCE = 0.65
RECOVER_CHANCE = 0.05


class Writer(Performer):
    async def perform(self) -> None:
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
                raise MustAbort  # with something unsent, which may arrive late
            await self.flush()
            await self.dawdle()
        if rng.random() < COMMIT_CHANCE:
            await self.end(commits=True)
        elif rng.random() < RECOVER_CHANCE:
            self.transaction = None
            await self.init(recovers=True)  # which aborts what is open
        else:
            await self.end(commits=False)
