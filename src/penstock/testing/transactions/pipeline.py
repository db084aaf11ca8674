"""Consumes one partition, and writes what it makes of it together with how far it has come: all of it, or nothing.

Whoever comes after it goes on at the offset that is committed. Two of them may be at work at once; then one is fenced.
"""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.testing.client import LostConnection, SimulatedClient
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.history import Advance, History, OffsetRead, Partition
from penstock.testing.transactions.identity import Identity
from penstock.testing.transactions.performer import Performer
from penstock.testing.transactions.stage import NOT_YET, RECEIPTS, Stage

GROUP_KEY_TYPE = 0
OFFSET_FETCH_VERSION = 9  # the last that names topics
ADD_OFFSETS_VERSION = 4
OFFSET_COMMIT_VERSION_1, OFFSET_COMMIT_VERSION_2 = 4, 5
COMMIT_CHANCE = 0.8

NOT_YET_TOLD = (*NOT_YET, ErrorCode.UNSTABLE_OFFSET_COMMIT)


class Pipeline(Performer):
    def __init__(
        self, stage: Stage, identity: Identity, name: str, *, source: Partition, group_id: str
    ) -> None:
        super().__init__(stage, identity, name)
        self._source = source
        self.group_id = group_id
        self._is_placed = False
        """It knows where its group is."""
        self._placements = 0
        self._group_found_on = 0

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
            await self._commit_offset(advance)
        for _ in records:
            self.add_batch(rng.choice(self.partitions_of(RECEIPTS)), 1)
        await self.flush()
        await self.dawdle()
        if not is_offset_first:
            await self._commit_offset(advance)
        is_commit = rng.random() < COMMIT_CHANCE
        await self.end(commits=is_commit)
        self._is_placed = is_commit

    async def give_up(self) -> None:
        self._is_placed = False
        await super().give_up()

    async def _place(self) -> bool:
        """Go where the group is; False where that can not be told for now."""
        try:
            await self._find_group()
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

    async def _find_group(self) -> None:
        await self.connect()
        while self._group_found_on != self.connections:
            request = FindCoordinatorRequest(key_type=GROUP_KEY_TYPE, coordinator_keys=[self.group_id])
            (found,) = (await self.ask(request)).coordinators
            if found.error_code == ErrorCode.NONE:
                self._group_found_on = self.connections
            else:
                await self.back_off("FindCoordinator", found.error_code)

    async def _commit_offset(self, advance: Advance) -> None:
        assert self.transaction is not None
        self.transaction.advances.append(advance)
        if not self.is_version_2:
            await self._add_group()
        topic, index = advance.partition
        entry = TxnOffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=advance.next_offset,
            committed_metadata=self.transaction.name,
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.identity.transactional_id,
            group_id=self.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        version = OFFSET_COMMIT_VERSION_2 if self.is_version_2 else OFFSET_COMMIT_VERSION_1
        while True:
            try:
                await self._find_group()
                self._start()
                response = await self.ask(request, version=version)
            except LostConnection:
                continue
            error = response.topics[0].partitions[0].error_code
            if error == ErrorCode.NONE:
                self.accepted("TxnOffsetCommit")
                return
            await self.refused("TxnOffsetCommit", error)

    async def _add_group(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.identity.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=self.group_id,
        )
        while True:
            try:
                await self.find_coordinator()
                self._start()
                response = await self.ask(request, version=ADD_OFFSETS_VERSION)
            except LostConnection:
                continue
            if response.error_code == ErrorCode.NONE:
                self.accepted("AddOffsetsToTxn")
                return
            await self.refused("AddOffsetsToTxn", response.error_code)


async def read_offset(
    client: SimulatedClient, history: History, group_id: str, partition: Partition
) -> int | ErrorCode:
    """Where a group is, -1 where nowhere, as it is told to those who want to know what will stay; it goes into the
    history."""
    topic, index = partition
    group = OffsetFetchRequestGroup(
        group_id=group_id, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[index])]
    )
    request = OffsetFetchRequest(groups=[group], require_stable=True)
    response = await client.ask(request, version=OFFSET_FETCH_VERSION)
    (answer,) = response.groups
    error: ErrorCode = answer.error_code
    if error == ErrorCode.NONE:
        error = answer.topics[0].partitions[0].error_code
    if error != ErrorCode.NONE:
        return error
    found = answer.topics[0].partitions[0]
    offset: int = found.committed_offset
    now = client.simulation.loop.time()
    history.offset_reads.append(
        OffsetRead(group_id, partition, offset, found.metadata if offset >= 0 else None, now)
    )
    return offset
