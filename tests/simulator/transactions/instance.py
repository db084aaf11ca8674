"""One process that uses a transactional id: it runs one transaction after another until it is stopped.

Cancelling it at any await is a crash. Other processes may use the same id meanwhile, which makes it a zombie. A fenced
instance stops, unless it ignores fencing: then it tries to write and commit some more, which must fail.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from simulator.transactions.client import HASTE_S_MAX, TransactionalClient
from simulator.transactions.history import Partition, Seen
from simulator.transactions.identity import Identity
from simulator.transactions.polling import poll_committed
from simulator.transactions.shared import ACCOUNTS, PAYMENTS, Fenced, MustAbort, SharedState

PAUSE_S_MAX = 0.1
LIVES_AS_ZOMBIE = 3
TIMEOUTS_MS = (800, 1500, 4000)


class ProducerInstance(TransactionalClient, ABC):
    def __init__(self, shared: SharedState, identity: Identity, name: str) -> None:
        rng = shared.simulation.generator(f"performer/{name}")
        super().__init__(
            shared,
            identity,
            name,
            is_version_2=self.HAS_TWO_PHASES or rng.random() < 0.6,
            timeout_ms=rng.choice(TIMEOUTS_MS),
        )
        self.is_leaving = False
        """Set by the workload: it has to end its transaction and stop."""
        self.ignores_fencing = rng.random() < 0.4 and not self.HAS_TWO_PHASES
        self._positions: dict[Partition, int] = {}

    async def run(self) -> None:
        try:
            await self.initialize()
            while not self.is_leaving:
                try:
                    await self.run_transaction()
                except MustAbort:
                    await self.abort_transaction()
                await self.pause()
        except Fenced:
            self.note("is fenced")
            self.is_fenced = True
            if self.ignores_fencing:
                await self._continue_fenced()
        self.disconnect()

    async def initialize(self) -> None:
        await self.init()

    @abstractmethod
    async def run_transaction(self) -> None:
        """Run one transaction."""

    async def abort_transaction(self) -> None:
        """Abort the open transaction."""
        if self.transaction is not None:
            if self.random.random() < 0.6:
                self.send_late()
                await asyncio.sleep(self.random.uniform(0, HASTE_S_MAX))
            await self.end(commits=False)

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))

    async def find_targets(self) -> list[Partition]:
        """The partitions to write to; empty, after a pause, while no topic is known."""
        if not self.topics or self.random.random() < 0.1:
            await self.look_for_topics()
        targets = self.partitions_of(ACCOUNTS, PAYMENTS)
        if not targets:
            await self.pause()
        return targets

    async def work_slowly(self) -> None:
        """Take long, at times longer than the transaction timeout."""
        if self.random.random() < 0.08:
            seconds = self.random.uniform(0, 2) * self.timeout_ms / 1000
            self.note(f"pauses for {seconds:.1f} s")
            await asyncio.sleep(seconds)
        else:
            await self.pause()

    def add_some(self, partitions: Sequence[Partition]) -> None:
        """Add records for some of these partitions, in up to three batches each."""
        rng = self.random
        for partition in rng.sample(partitions, rng.randint(1, len(partitions))):
            for _ in range(rng.choice((1, 1, 2, 3))):
                self.add_batch(partition, rng.randint(1, 3))

    async def _continue_fenced(self) -> None:
        """Continue as if not fenced. If any request is accepted, the checks raise."""
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
        """Committed records from the current position, and the next position; None if none are available."""
        position = self._positions.setdefault(partition, 0)
        found = await poll_committed(
            self, self.shared, self._reads_as, partition, position, topic_id=self.topics[partition[0]][0]
        )
        if found is not None:
            self._positions[partition] = found[1]
        return found

    @property
    def _reads_as(self) -> str:
        return self.name
