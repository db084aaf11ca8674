"""Consumes one partition, and commits its output together with its offset: all of it, or nothing.

Its successor continues at the committed offset. Two may run at once; then one is fenced.
"""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from simulator.clients.client import LostConnection
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Advance, Partition
from simulator.transactions.identity import Identity
from simulator.transactions.instance import ProducerInstance
from simulator.transactions.offsets import RETRIABLE_OR_UNSTABLE, OffsetProducer, read_offset
from simulator.transactions.shared import RECEIPTS, SharedState

COMMIT_CHANCE = 0.8


class Pipeline(ProducerInstance, OffsetProducer):
    def __init__(
        self, shared: SharedState, identity: Identity, name: str, *, source: Partition, group_id: str
    ) -> None:
        super().__init__(shared, identity, name)
        self._source = source
        self.group_id = group_id
        self._has_position = False
        """It knows the group's offset."""
        self._seeks = 0

    @property
    def _reads_as(self) -> str:
        return f"{self.name}/{self._seeks}"

    async def run_transaction(self) -> None:
        rng = self.random
        if self._source not in self.partitions_of(self._source[0]) or RECEIPTS not in self.topics:
            await self.pause()
            await self.look_for_topics()
            return
        if not self._has_position and not await self._seek_to_committed():
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
        await self.work_slowly()
        if not is_offset_first:
            await self.commit_offset(advance)
        is_commit = rng.random() < COMMIT_CHANCE
        await self.end(commits=is_commit)
        self._has_position = is_commit

    async def abort_transaction(self) -> None:
        self._has_position = False
        await super().abort_transaction()

    async def _seek_to_committed(self) -> bool:
        """Seek to the group's committed offset; False if it is not available for now."""
        try:
            await self.find_group(self.group_id)
            found = await read_offset(self, self.shared.history, self.group_id, self._source)
        except LostConnection:
            return False
        if isinstance(found, ErrorCode):
            if found not in RETRIABLE_OR_UNSTABLE:
                raise BrokenPromise(f"{self.name} cannot fetch the offset of its group: {found.name}")
            return False
        self._positions[self._source] = max(found, 0)
        self._seeks += 1
        self._has_position = True
        return True
