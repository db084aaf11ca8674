"""Members of a group that consume, transform and produce in transactions, each under a transactional id of its own.

Which member works on a partition is for the group to say (KIP-447). One that was put out and does not know it yet is
refused when it commits its offset; and who takes its partition over is not told where to begin before the
transaction of the one before it has ended.
"""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from penstock.testing.groups.claims import Partition as GroupPartition
from penstock.testing.groups.classic import ClassicMember
from penstock.testing.groups.consumer import ConsumerMember
from penstock.testing.groups.member import NOT_A_MEMBER, OUT_OF_DATE, Member
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.history import Advance, Partition
from penstock.testing.transactions.identity import Identity
from penstock.testing.transactions.offsets import NOT_YET_TOLD, Membership, OffsetProducer, read_offset
from penstock.testing.transactions.polling import poll_committed
from penstock.testing.transactions.stage import RECEIPTS, Fenced, MustAbort, Stage

TIMEOUTS_MS = (1500, 4000)
COMMIT_CHANCE = 0.8
WORK_S_MAX = 0.3
LONG_WORK_S_MAX = 2.5  # longer than a group waits for a member, and shorter than some transactions last


class Worker(Member):
    """Comes before the kind of member that it is."""

    stage: Stage

    def employ(self, stage: Stage) -> None:
        """Called once, before it runs."""
        self.stage = stage
        self._producer: OffsetProducer | None = None
        self._producers = 0
        self._placements = 0
        self._placed_as: Membership | None = None
        """Positions are good for as long as it is this member of this generation."""

    async def _consume(self) -> None:
        owned = list(self.tenure.held)
        if not owned or self._has_to_rest:
            return
        held = self.random.choice(owned)
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        partition = names[held[0]], held[1]
        if self._placed_as != self._membership:
            self._positions.clear()
            self._placed_as = self._membership
        if held not in self._positions and not await self._place(held, partition):
            return
        position = self._positions[held]
        found = await poll_committed(
            self, self.stage, f"{self.name}/{self._placements}", partition, position, topic_id=held[0]
        )
        if found is None or found[1] == position:
            return
        records, next_offset = found
        # Until this is committed nobody knows where the group will be; then it is asked anew.
        del self._positions[held]
        producer = await self._get_producer()
        await producer.look_for_topics()
        if RECEIPTS not in producer.topics:
            return
        producer.begin().reads += records
        try:
            advance = Advance(self.party.group_id, partition, position, next_offset)
            is_offset_first = self.random.random() < 0.4
            if is_offset_first:
                await producer.commit_offset(advance, self._membership)
            for _ in records:
                producer.add_batch(self.random.choice(producer.partitions_of(RECEIPTS)), 1)
            await producer.flush()
            await self._work()
            if not is_offset_first:
                await producer.commit_offset(advance, self._membership)
            is_commit = self.random.random() < COMMIT_CHANCE
            await producer.end(commits=is_commit)
            if is_commit and held in self.tenure.held:
                self._positions[held] = next_offset
        except MustAbort:
            await self._give_up(producer)
        except Fenced:
            self._producer = None

    @property
    def _has_to_rest(self) -> bool:
        """Heartbeats wait for the commits before them to be flushed. Where that may take longer than a session lasts,
        who works puts all others out, and a group whose members go on working never comes to rest."""
        return self.stage.weather.is_over() and self.simulation.stall_s_max > self.party.session_s

    async def _work(self) -> None:
        # Long work puts a member out, so a group whose members all work long now and then never comes to rest.
        is_long = self.random.random() < 0.2 and not self.stage.weather.is_over()
        await asyncio.sleep(self.random.uniform(0, LONG_WORK_S_MAX if is_long else WORK_S_MAX))
        await self._thaw()

    @property
    def _membership(self) -> Membership:
        return Membership(self.member_id, self.generation, self.instance_id)

    async def _commit(self) -> None:
        """It commits together with what it writes."""

    async def _give_up(self, producer: OffsetProducer) -> None:
        try:
            await producer.end(commits=False)
        except (Fenced, MustAbort):
            self._producer = None

    async def _get_producer(self) -> OffsetProducer:
        if self._producer is None:
            self._producers += 1
            name = f"{self.name}-producer-{self._producers}"
            self._producer = OffsetProducer(
                self.stage,
                Identity(name),
                name,
                is_version_2=self.random.random() < 0.6,
                timeout_ms=self.random.choice(TIMEOUTS_MS),
            )
            await self._producer.init()
        return self._producer

    async def _place(self, held: GroupPartition, partition: Partition) -> bool:
        """Go where the group is; False where that can not be told for now."""
        found = await read_offset(self, self.stage.history, self.party.group_id, partition)
        if isinstance(found, ErrorCode):
            if found in NOT_YET_TOLD:
                await asyncio.sleep(self.random.uniform(0, self.party.heartbeat_s))
            elif found not in NOT_A_MEMBER + OUT_OF_DATE:
                raise BrokenPromise(f"{self.name} is not told where its group is: {found.name}")
            return False
        self._positions[held] = max(found, 0)
        self._placements += 1
        return True


class ClassicWorker(Worker, ClassicMember):
    pass


class ConsumerWorker(Worker, ConsumerMember):
    pass
