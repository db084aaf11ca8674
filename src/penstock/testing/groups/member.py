"""What members of a group do whatever its protocol: find the coordinator, read, commit, stop for a while, and go.

A member does one thing after another, as a consumer's thread does. It can be frozen: then it neither sends
nor looks at what has come, and goes on afterwards as if nothing had happened, which makes it a zombie if
that was long. It notes in the party's books what it is told; what it owns it gives up there before it says so.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.types import Uuid
from penstock.testing.client import ANSWER_S_MAX, EARLIEST, LostConnection
from penstock.testing.consumers import read_records
from penstock.testing.groups.claims import Partition, Tenure
from penstock.testing.groups.offset_client import (
    COORDINATOR_ERRORS,
    IDS_VERSION,
    NAMES_VERSION,
    ONE_GROUP_VERSION,
    OffsetClient,
)
from penstock.testing.groups.offsets import Commit
from penstock.testing.groups.party import Party
from penstock.testing.simulation import BrokenPromise, Simulation

BACKOFF_S = 0.1
PARTITION_BYTES = 2_000  # a few records at a time

NOT_A_MEMBER = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,  # there are no members at all
)
OUT_OF_DATE = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH)
NOT_COMMITTED = (
    *NOT_A_MEMBER,
    *OUT_OF_DATE,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""After these an offset is where it was before."""


class Member(OffsetClient, ABC):
    def __init__(
        self, simulation: Simulation, name: str, party: Party, *, instance_id: str | None = None
    ) -> None:
        super().__init__(simulation, name)
        self.party = party
        self.instance_id = instance_id
        self.topic_ids = {}
        self.member_id = ""
        self.generation = -1
        """Or epoch; negative where it is in none."""
        self.frozen_until = 0.0
        self.busy_until = 0.0
        """Until then it shows that it lives, but has no time to follow a rebalance."""
        self.has_pattern = False
        """It subscribes to whatever topics have names of a certain kind."""
        self.is_leaving = False
        """Set by others: it has to leave as it should."""
        self.tenure: Tenure
        self._begin_tenure()
        self._positions: dict[Partition, int] = {}
        self._notes = 0
        self._coordinator_found_on = 0
        """The connection on which it was."""

    async def run(self) -> None:
        while not self.is_leaving:
            try:
                await self._find_coordinator()
                await self._live()
            except LostConnection:
                self._answer_lost()
        try:
            await self._leave()
        except LostConnection:
            pass
        finally:
            self.hang_up()

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """It is a member, and there is nothing that it has to do."""

    @property
    @abstractmethod
    def commits_show_life(self) -> bool:
        """Whether a commit does for a heartbeat."""

    @abstractmethod
    async def _live(self) -> None:
        """The next thing; called again and again."""

    @abstractmethod
    async def _leave(self) -> None: ...

    def _answer_lost(self) -> None:
        """Nobody knows what became of the last request."""

    # Asking

    async def ask(self, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX) -> Any:
        await self._thaw()
        await self.connect()  # which may take several lives of the node, and a power cut in one of them
        if self.tenure.is_forgotten:
            self.tenure = self.party.claims.revive(self.tenure)
        response = await super().ask(request, version=version, within_s=within_s)
        await self._thaw()
        kind, error = type(request).__name__, getattr(response, "error_code", ErrorCode.NONE)
        self.simulation.trace.note(f"{self.name} in {self.generation}: {kind} is answered with {error.name}")
        return response

    async def _thaw(self) -> None:
        while (left := self.frozen_until - self.simulation.loop.time()) > 0:
            await asyncio.sleep(left)

    async def _find_coordinator(self) -> None:
        while self._coordinator_found_on != self.connections or not self.connections:
            request = FindCoordinatorRequest(coordinator_keys=[self.party.group_id])
            (found,) = (await self.ask(request)).coordinators
            if found.error_code == ErrorCode.NONE:
                self._coordinator_found_on = self.connections
            else:
                await self._back_off(found.error_code)

    async def _back_off(self, error: ErrorCode) -> None:
        """For an error that says nothing about the member itself."""
        if error not in COORDINATOR_ERRORS:
            raise BrokenPromise(f"{self.name} is refused by the coordinator: {error.name}")
        self._coordinator_found_on = -1
        await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    async def _find_topics(self) -> dict[str, int]:
        """The partition counts of the topics that are there by now."""
        counts: dict[str, int] = {}
        for topic in self.party.topics:
            found = await self.find_topic(topic)
            if found is not None:
                self.topic_ids[topic], counts[topic] = found
                for index in range(found[1]):
                    self.party.ledger.get(topic, found[0], index)
        return counts

    @property
    def _is_busy(self) -> bool:
        return self.simulation.loop.time() < self.busy_until

    # Tenures

    def _begin_tenure(self) -> None:
        party = self.party
        self.tenure = party.claims.begin(
            self.name,
            session_s=party.session_s,
            rebalance_s=party.rebalance_s,
            instance_id=self.instance_id,
        )

    def _lose_everything(self) -> None:
        """The coordinator does not know this member: it owns nothing, and has to come anew."""
        self.party.claims.end(self.tenure)
        self._begin_tenure()
        self.member_id = ""
        self.generation = -1
        self._positions.clear()

    def _accepted(
        self, what: str, *, sent_at: float, is_settled: bool = False, names_generation: bool = True
    ) -> None:
        self.party.answered_by_group(asked_at=sent_at)
        self.party.claims.accepted(
            self.tenure,
            what,
            sent_at=sent_at,
            now=self.party.now(),
            is_settled=is_settled,
            names_generation=names_generation,
        )

    def _refused(self, what: str, error: ErrorCode) -> None:
        self.party.claims.refused(self.tenure, what, error.name, now=self.simulation.loop.time())

    # Reading and committing

    async def _consume(self) -> None:
        """Read a little of one partition, from where the group is."""
        owned = list(self.tenure.held)
        if not owned:
            return
        partition = self.random.choice(owned)
        position = self._positions.get(partition)
        if position is None:
            position = await self._find_position(partition)
            if position is None:
                return
        topic_id, index = partition
        wanted = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=PARTITION_BYTES)
        response = await self.ask(
            FetchRequest(
                max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]
            )
        )
        data: PartitionData = response.responses[0].partitions[0]
        ledger = self.party.ledger.partitions[partition]
        if data.error_code == ErrorCode.NONE:
            records = read_records(data, position, ledger.name)
            for record in records:
                ledger.read(record)
            self._positions[partition] = position + len(records)
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._go_to_start(partition)

    async def _find_position(self, partition: Partition) -> int | None:
        version = self.random.choice((ONE_GROUP_VERSION, NAMES_VERSION, IDS_VERSION))
        found = await self.fetch_offsets(
            self.party, [partition], version=version, member=self._fetches_offsets_as()
        )
        if isinstance(found, ErrorCode):
            if found not in NOT_A_MEMBER + OUT_OF_DATE:
                await self._back_off(found)
            return None
        if partition not in found:
            return await self._go_to_start(partition)
        self._positions[partition] = found[partition]
        return found[partition]

    async def _go_to_start(self, partition: Partition) -> int | None:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        offset = await self.offset(names[partition[0]], partition[1], EARLIEST)
        if isinstance(offset, ErrorCode):
            return None
        self._positions[partition] = offset
        return offset

    def _fetches_offsets_as(self) -> tuple[str, int] | None:
        """Who it says it is; None for nobody, as anyone may ask."""
        return None

    async def _commit(self) -> None:
        """Commit where it is, in the generation that it believes in."""
        owned = [partition for partition in self._positions if partition in self.tenure.held]
        if not owned:
            return
        chosen = self.random.sample(owned, self.random.randint(1, len(owned)))
        version = self.random.choice(self._commit_versions())
        await self.connect()
        await self._thaw()
        now = self.simulation.loop.time()
        commits: dict[Partition, Commit] = {}
        for partition in chosen:
            self._notes += 1
            note = f"{self.name}/{self._notes}"
            commits[partition] = self.party.offsets.sent(partition, self._positions[partition], note, now=now)
        try:
            response = await self.ask(self._make_commit(commits, version), version=version)
        except BaseException:  # also where the member is taken off the stage
            for commit in commits.values():
                self.party.offsets.given_up(commit, now=self.simulation.loop.time())
            raise
        answers: dict[Partition, ErrorCode] = {
            (
                topic.topic_id if version >= IDS_VERSION else self.topic_ids[topic.name],
                entry.partition_index,
            ): (entry.error_code)
            for topic in response.topics
            for entry in topic.partitions
        }
        await self._look_at_commits(answers, commits, sent_at=self.sent_at)

    def _commit_versions(self) -> tuple[int, ...]:
        return (ONE_GROUP_VERSION, NAMES_VERSION, IDS_VERSION)  # 7 has instance ids, too

    def _make_commit(self, commits: dict[Partition, Commit], version: int) -> OffsetCommitRequest:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        partitions: dict[Uuid, list[OffsetCommitRequestPartition]] = {}
        for (topic_id, index), commit in commits.items():
            partitions.setdefault(topic_id, []).append(
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=commit.offset, committed_metadata=commit.note
                )
            )
        return OffsetCommitRequest(
            group_id=self.party.group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="" if version >= IDS_VERSION else names[topic_id], topic_id=topic_id, partitions=each
                )
                for topic_id, each in partitions.items()
            ],
        )

    async def _look_at_commits(
        self, answers: dict[Partition, ErrorCode], commits: dict[Partition, Commit], *, sent_at: float
    ) -> None:
        now = self.simulation.loop.time()
        if answers.keys() != commits.keys():
            raise BrokenPromise(
                f"{self.name} committed {sorted(commits)}, and is answered for {sorted(answers)}"
            )
        worst = ErrorCode.NONE
        for partition, commit in commits.items():
            error = answers[partition]
            if error == ErrorCode.NONE:
                self.party.answered_by_group(asked_at=sent_at)
                self.party.offsets.acknowledged(commit, now=now)
                self.party.claims.accepted(
                    self.tenure, "a commit", sent_at=sent_at, now=now, is_sign_of_life=self.commits_show_life
                )
            elif error in NOT_COMMITTED:
                self.party.offsets.refused(partition, commit)
            else:
                self.party.offsets.given_up(commit, now=now)
            if error != ErrorCode.NONE:
                worst = error
        if worst != ErrorCode.NONE:
            await self._commit_refused(worst)

    @abstractmethod
    async def _commit_refused(self, error: ErrorCode) -> None:
        """What the member makes of it."""
