"""One incarnation of a transactional id: a process that begins, works, ends, and begins anew until it is stopped.

It may be cancelled at any await, which is a process that vanishes, and others may come under the same id while it goes
on, which makes it a zombie. When it is told that it is fenced it goes home, unless it is one of those that do not
listen: then it tries to write and to commit some more, and every such thing has to be refused.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from penstock.testing.transactions.client import HASTE_S_MAX, TransactionalClient
from penstock.testing.transactions.history import Partition, Seen
from penstock.testing.transactions.identity import Identity
from penstock.testing.transactions.polling import poll_committed
from penstock.testing.transactions.stage import ACCOUNTS, PAYMENTS, Fenced, MustAbort, Stage

PAUSE_S_MAX = 0.1
LIVES_AS_ZOMBIE = 3
TIMEOUTS_MS = (800, 1500, 4000)


class Performer(TransactionalClient, ABC):
    def __init__(self, stage: Stage, identity: Identity, name: str) -> None:
        rng = stage.simulation.generator(f"performer/{name}")
        super().__init__(
            stage,
            identity,
            name,
            is_version_2=self.HAS_TWO_PHASES or rng.random() < 0.6,
            timeout_ms=rng.choice(TIMEOUTS_MS),
        )
        self.is_leaving = False
        """Set by others: it has to end what it has begun, and go."""
        self.insists = rng.random() < 0.4 and not self.HAS_TWO_PHASES
        self._positions: dict[Partition, int] = {}

    async def run(self) -> None:
        try:
            await self.prepare()
            while not self.is_leaving:
                try:
                    await self.perform()
                except MustAbort:
                    await self.give_up()
                await self.pause()
        except Fenced:
            self.note("is fenced")
            self.is_fenced = True
            if self.insists:
                await self._insist()
        self.hang_up()

    async def prepare(self) -> None:
        await self.init()

    @abstractmethod
    async def perform(self) -> None:
        """One transaction."""

    async def give_up(self) -> None:
        """Abort what was begun."""
        if self.transaction is not None:
            if self.random.random() < 0.6:
                self.straggle()
                await asyncio.sleep(self.random.uniform(0, HASTE_S_MAX))
            await self.end(commits=False)

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))

    async def find_targets(self) -> list[Partition]:
        """Where to write; nowhere, after a pause, while no topic is known."""
        if not self.topics or self.random.random() < 0.1:
            await self.look_for_topics()
        targets = self.partitions_of(ACCOUNTS, PAYMENTS)
        if not targets:
            await self.pause()
        return targets

    async def dawdle(self) -> None:
        """Take long, at times longer than the coordinator waits."""
        if self.random.random() < 0.08:
            seconds = self.random.uniform(0, 2) * self.timeout_ms / 1000
            self.note(f"dawdles for {seconds:.1f} s")
            await asyncio.sleep(seconds)
        else:
            await self.pause()

    def add_some(self, partitions: Sequence[Partition]) -> None:
        """Records for some of these partitions, in up to three batches each."""
        rng = self.random
        for partition in rng.sample(partitions, rng.randint(1, len(partitions))):
            for _ in range(rng.choice((1, 1, 2, 3))):
                self.add_batch(partition, rng.randint(1, 3))

    async def _insist(self) -> None:
        """Go on as if nothing had been said; who accepts anything of it is told so by the books."""
        for _ in range(LIVES_AS_ZOMBIE):
            await self.pause()
            try:
                self.drop_unacknowledged()
                self.begin()
                await self.look_for_topics()
                if partitions := self.partitions_of(*self.topics):
                    self.add_some(partitions)
                    await self.flush()
                    await self.end(commits=True)
            except (Fenced, MustAbort):
                continue

    async def poll(self, partition: Partition) -> tuple[list[Seen], int] | None:
        """Committed records from where it is, and where it goes on; None where there is nothing to be had for now."""
        position = self._positions.setdefault(partition, 0)
        found = await poll_committed(
            self, self.stage, self._reads_as, partition, position, topic_id=self.topics[partition[0]][0]
        )
        if found is not None:
            self._positions[partition] = found[1]
        return found

    @property
    def _reads_as(self) -> str:
        return self.name
