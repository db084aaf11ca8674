"""Consumes one partition, and writes what it makes of it together with how far it has come: all of it, or nothing.

Whoever comes after it goes on at the offset that is committed. Two of them may be at work at once; then one is fenced.
"""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.testing.client import LostConnection
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.history import Advance, Partition
from penstock.testing.transactions.identity import Identity
from penstock.testing.transactions.offsets import NOT_YET_TOLD, OffsetProducer, read_offset
from penstock.testing.transactions.performer import Performer
from penstock.testing.transactions.stage import RECEIPTS, Stage

COMMIT_CHANCE = 0.8


class Pipeline(Performer, OffsetProducer):
    def __init__(
        self, stage: Stage, identity: Identity, name: str, *, source: Partition, group_id: str
    ) -> None:
        super().__init__(stage, identity, name)
        self._source = source
        self.group_id = group_id
        self._is_placed = False
        """It knows where its group is."""
        self._placements = 0

    @property
    def _reads_as(self) -> str:
        return f"{self.name}/{self._placements}"

    async def perform(self) -> None:
        rng = self.random
        if self._source not in self.partitions_of(self._source[0]) or RECEIPTS not in self.topics:
            await self.pause()
            await self.look_for_topics()
            return
        if not self._is_placed and not await self._place():
            await self.pause()
            return
        position = self._positions[self._source]
        found = await self.poll(self._source)
        if found is None or found[1] == position:
            await self.pause()
            return
        records, next_offset = found
        transaction = self.begin()
        transaction.reads += records
        is_offset_first = rng.random() < 0.3
        advance = Advance(self.group_id, self._source, position, next_offset)
        if is_offset_first:
            await self.commit_offset(advance)
        for _ in records:
            self.add_batch(rng.choice(self.partitions_of(RECEIPTS)), 1)
        await self.flush()
        await self.dawdle()
        if not is_offset_first:
            await self.commit_offset(advance)
        is_commit = rng.random() < COMMIT_CHANCE
        await self.end(commits=is_commit)
        self._is_placed = is_commit

    async def give_up(self) -> None:
        self._is_placed = False
        await super().give_up()

    async def _place(self) -> bool:
        """Go where the group is; False where that can not be told for now."""
        try:
            await self.find_group(self.group_id)
            found = await read_offset(self, self.stage.history, self.group_id, self._source)
        except LostConnection:
            return False
        if isinstance(found, ErrorCode):
            if found not in NOT_YET_TOLD:
                raise BrokenPromise(f"{self.name} is not told where its group is: {found.name}")
            return False
        self._positions[self._source] = max(found, 0)
        self._placements += 1
        self._is_placed = True
        return True
