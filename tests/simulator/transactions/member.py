"""Group members that consume, transform and produce in transactions, each with its own transactional id.

The group decides which member works on a partition (KIP-447). A member that was removed and does not know it yet
cannot commit its offset. Its successor gets no start offset before the predecessor's transaction has ended.
"""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from simulator.groups.classic import ClassicMember
from simulator.groups.consumer import ConsumerMember
from simulator.groups.member import NOT_A_MEMBER, OUT_OF_DATE, Member
from simulator.groups.ownership import Partition as GroupPartition
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Advance, Partition
from simulator.transactions.identity import Identity
from simulator.transactions.offsets import RETRIABLE_OR_UNSTABLE, GroupMetadata, OffsetProducer, read_offset
from simulator.transactions.polling import poll_committed
from simulator.transactions.shared import RECEIPTS, Fenced, MustAbort, SharedState

TIMEOUTS_MS = (1500, 4000)
COMMIT_CHANCE = 0.8
WORK_S_MAX = 0.3
LONG_WORK_S_MAX = 2.5  # longer than the group's timeouts, and shorter than some transaction timeouts


class TransactionalMember(Member):
    """A mixin, in front of the class of the group protocol."""

    shared: SharedState

    def attach(self, shared: SharedState) -> None:
        """Called once, before it runs."""
        self.shared = shared
        self._producer: OffsetProducer | None = None
        self._producer_count = 0
        self._seeks = 0
        self._positions_as: GroupMetadata | None = None
        """Positions are valid only for this member in this generation."""

    async def _consume(self) -> None:
        owned = list(self.membership.held)
        if not owned or self._has_to_rest:
            return
        held = self.random.choice(owned)
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        partition = names[held[0]], held[1]
        if self._positions_as != self._group_metadata:
            self._positions.clear()
            self._positions_as = self._group_metadata
        if held not in self._positions and not await self._seek_to_committed(held, partition):
            return
        position = self._positions[held]
        found = await poll_committed(
            self, self.shared, f"{self.name}/{self._seeks}", partition, position, topic_id=held[0]
        )
        if found is None or found[1] == position:
            return
        records, next_offset = found
        # Until this is committed, the group's offset is unknown; then it is fetched again.
        del self._positions[held]
        producer = await self._get_producer()
        await producer.look_for_topics()
        if RECEIPTS not in producer.topics:
            return
        producer.begin().reads += records
        try:
            advance = Advance(self.group.group_id, partition, position, next_offset)
            is_offset_first = self.random.random() < 0.4
            if is_offset_first:
                await producer.commit_offset(advance, self._group_metadata)
            for _ in records:
                producer.add_batch(self.random.choice(producer.partitions_of(RECEIPTS)), 1)
            await producer.flush()
            await self._work()
            if not is_offset_first:
                await producer.commit_offset(advance, self._group_metadata)
            is_commit = self.random.random() < COMMIT_CHANCE
            await producer.end(commits=is_commit)
            if is_commit and held in self.membership.held:
                self._positions[held] = next_offset
        except MustAbort:
            await self._abort_transaction(producer)
        except Fenced:
            self._producer = None

    @property
    def _has_to_rest(self) -> bool:
        """Heartbeats wait for earlier commits to be flushed. If that may take longer than a session, working members
        get the others removed, and the group never becomes stable."""
        return self.shared.conditions.is_over() and self.simulation.stall_s_max > self.group.session_s

    async def _work(self) -> None:
        # Long work gets a member removed, so a group in which all members do it now and then never becomes stable.
        is_long = self.random.random() < 0.2 and not self.shared.conditions.is_over()
        await asyncio.sleep(self.random.uniform(0, LONG_WORK_S_MAX if is_long else WORK_S_MAX))
        await self._wait_while_frozen()

    @property
    def _group_metadata(self) -> GroupMetadata:
        return GroupMetadata(self.member_id, self.generation, self.instance_id)

    async def _commit(self) -> None:
        """Offsets are committed with the output."""

    async def _abort_transaction(self, producer: OffsetProducer) -> None:
        try:
            await producer.end(commits=False)
        except (Fenced, MustAbort):
            self._producer = None

    async def _get_producer(self) -> OffsetProducer:
        if self._producer is None:
            self._producer_count += 1
            name = f"{self.name}-producer-{self._producer_count}"
            self._producer = OffsetProducer(
                self.shared,
                Identity(name),
                name,
                is_version_2=self.random.random() < 0.6,
                timeout_ms=self.random.choice(TIMEOUTS_MS),
            )
            await self._producer.init()
        return self._producer

    async def _seek_to_committed(self, held: GroupPartition, partition: Partition) -> bool:
        """Seek to the group's committed offset; False if it is not available for now."""
        found = await read_offset(self, self.shared.history, self.group.group_id, partition)
        if isinstance(found, ErrorCode):
            if found in RETRIABLE_OR_UNSTABLE:
                await asyncio.sleep(self.random.uniform(0, self.group.heartbeat_s))
            elif found not in NOT_A_MEMBER + OUT_OF_DATE:
                raise BrokenPromise(f"{self.name} cannot fetch the offset of its group: {found.name}")
            return False
        self._positions[held] = max(found, 0)
        self._seeks += 1
        return True


class ClassicTransactionalMember(TransactionalMember, ClassicMember):
    pass


class ConsumerTransactionalMember(TransactionalMember, ConsumerMember):
    pass
