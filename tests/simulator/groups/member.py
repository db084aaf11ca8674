"""What group members of both protocols do: find the coordinator, read, commit, freeze, leave.

A member does one thing after another, like a consumer's thread. A frozen member neither sends nor reads, then
continues as if nothing had happened. If that took long, it is a zombie. It records in the group's checks what it is
assigned, and there releases a partition before it reports the revocation.
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
from simulator.clients.client import ANSWER_S_MAX, EARLIEST, LostConnection
from simulator.clients.consumers import read_records
from simulator.groups.group import SimulatedGroup
from simulator.groups.offset_client import (
    COORDINATOR_ERRORS,
    IDS_VERSION,
    NAMES_VERSION,
    ONE_GROUP_VERSION,
    OffsetClient,
)
from simulator.groups.offsets import Commit
from simulator.groups.ownership import Membership, Partition
from simulator.simulation import BrokenPromise, Simulation

BACKOFF_S = 0.1
PARTITION_BYTES = 2_000  # a few records per fetch

NOT_A_MEMBER = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,  # the group has no members
)
OUT_OF_DATE = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH)
NOT_COMMITTED = (
    *NOT_A_MEMBER,
    *OUT_OF_DATE,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""After these errors the committed offset is unchanged."""


class Member(OffsetClient, ABC):
    def __init__(
        self, simulation: Simulation, name: str, group: SimulatedGroup, *, instance_id: str | None = None
    ) -> None:
        super().__init__(simulation, name)
        self.group = group
        self.instance_id = instance_id
        self.topic_ids = {}
        self.member_id = ""
        self.generation = -1
        """Or member epoch; negative: not a member."""
        self.frozen_until = 0.0
        self.busy_until = 0.0
        """Until then it sends heartbeats, but does not follow a rebalance."""
        self.has_pattern = False
        """It subscribes by a regular expression."""
        self.is_leaving = False
        """Set by the workload: the member has to leave the group properly."""
        self.membership: Membership
        self._begin_membership()
        self._positions: dict[Partition, int] = {}
        self._notes = 0
        self._coordinator_found_on = 0
        """The number of the connection on which it was found."""

    async def run(self) -> None:
        while not self.is_leaving:
            try:
                await self._find_coordinator()
                await self._step()
            except LostConnection:
                self._answer_lost()
        try:
            await self._leave()
        except LostConnection:
            pass
        finally:
            self.disconnect()

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """It is a member and has nothing left to do."""

    @property
    @abstractmethod
    def commits_show_life(self) -> bool:
        """Whether a commit counts as a heartbeat."""

    @abstractmethod
    async def _step(self) -> None:
        """Called repeatedly: does the next step."""

    @abstractmethod
    async def _leave(self) -> None: ...

    def _answer_lost(self) -> None:
        """The outcome of the last request is unknown."""

    # Requests

    async def ask(self, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX) -> Any:
        await self._wait_while_frozen()
        await self.connect()  # this may take several restarts of the node, with a power cut among them
        if self.membership.is_forgotten:
            self.membership = self.group.ownership.revive(self.membership)
        response = await super().ask(request, version=version, within_s=within_s)
        await self._wait_while_frozen()
        kind, error = type(request).__name__, getattr(response, "error_code", ErrorCode.NONE)
        self.simulation.trace.note(f"{self.name} in {self.generation}: {kind} is answered with {error.name}")
        return response

    async def _wait_while_frozen(self) -> None:
        while (left := self.frozen_until - self.simulation.loop.time()) > 0:
            await asyncio.sleep(left)

    async def _find_coordinator(self) -> None:
        while self._coordinator_found_on != self.connections or not self.connections:
            request = FindCoordinatorRequest(coordinator_keys=[self.group.group_id])
            (found,) = (await self.ask(request)).coordinators
            if found.error_code == ErrorCode.NONE:
                self._coordinator_found_on = self.connections
            else:
                await self._back_off(found.error_code)

    async def _back_off(self, error: ErrorCode) -> None:
        """Back off after an error that says nothing about the member itself."""
        if error not in COORDINATOR_ERRORS:
            raise BrokenPromise(f"the coordinator rejects {self.name}: {error.name}")
        self._coordinator_found_on = -1
        await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    async def _find_topics(self) -> dict[str, int]:
        """The partition counts of the topics that exist by now."""
        counts: dict[str, int] = {}
        for topic in self.group.topics:
            found = await self.find_topic(topic)
            if found is not None:
                self.topic_ids[topic], counts[topic] = found
                for index in range(found[1]):
                    self.group.ledger.get(topic, found[0], index)
        return counts

    @property
    def _is_busy(self) -> bool:
        return self.simulation.loop.time() < self.busy_until

    # Membership

    def _begin_membership(self) -> None:
        group = self.group
        self.membership = group.ownership.begin(
            self.name,
            session_s=group.session_s,
            rebalance_s=group.rebalance_s,
            instance_id=self.instance_id,
        )

    def _reset_membership(self) -> None:
        """The coordinator does not know this member: it owns nothing and has to rejoin."""
        self.group.ownership.end(self.membership)
        self._begin_membership()
        self.member_id = ""
        self.generation = -1
        self._positions.clear()

    def _accepted(
        self, what: str, *, sent_at: float, is_settled: bool = False, names_generation: bool = True
    ) -> None:
        self.group.answered_by_group(asked_at=sent_at)
        self.group.ownership.accepted(
            self.membership,
            what,
            sent_at=sent_at,
            now=self.group.now(),
            is_settled=is_settled,
            names_generation=names_generation,
        )

    def _refused(self, what: str, error: ErrorCode) -> None:
        self.group.ownership.refused(self.membership, what, error.name, now=self.simulation.loop.time())

    # Reading and committing

    async def _consume(self) -> None:
        """Read a little of one partition, from the group's committed offset on."""
        owned = list(self.membership.held)
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
        ledger = self.group.ledger.partitions[partition]
        if data.error_code == ErrorCode.NONE:
            records = read_records(data, position, ledger.name)
            for record in records:
                ledger.read(record)
            self._positions[partition] = position + len(records)
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._seek_to_start(partition)

    async def _find_position(self, partition: Partition) -> int | None:
        version = self.random.choice((ONE_GROUP_VERSION, NAMES_VERSION, IDS_VERSION))
        found = await self.fetch_offsets(
            self.group, [partition], version=version, member=self._fetches_offsets_as()
        )
        if isinstance(found, ErrorCode):
            if found not in NOT_A_MEMBER + OUT_OF_DATE:
                await self._back_off(found)
            return None
        if partition not in found:
            return await self._seek_to_start(partition)
        self._positions[partition] = found[partition]
        return found[partition]

    async def _seek_to_start(self, partition: Partition) -> int | None:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        offset = await self.offset(names[partition[0]], partition[1], EARLIEST)
        if isinstance(offset, ErrorCode):
            return None
        self._positions[partition] = offset
        return offset

    def _fetches_offsets_as(self) -> tuple[str, int] | None:
        """Member id and epoch to send; None to fetch offsets without being a member."""
        return None

    async def _commit(self) -> None:
        """Commit its positions, in the generation that it knows."""
        owned = [partition for partition in self._positions if partition in self.membership.held]
        if not owned:
            return
        chosen = self.random.sample(owned, self.random.randint(1, len(owned)))
        version = self.random.choice(self._commit_versions())
        await self.connect()
        await self._wait_while_frozen()
        now = self.simulation.loop.time()
        commits: dict[Partition, Commit] = {}
        for partition in chosen:
            self._notes += 1
            note = f"{self.name}/{self._notes}"
            commits[partition] = self.group.offsets.sent(partition, self._positions[partition], note, now=now)
        try:
            response = await self.ask(self._make_commit(commits, version), version=version)
        except BaseException:  # also when the workload cancels the member
            for commit in commits.values():
                self.group.offsets.given_up(commit, now=self.simulation.loop.time())
            raise
        answers: dict[Partition, ErrorCode] = {
            (
                topic.topic_id if version >= IDS_VERSION else self.topic_ids[topic.name],
                entry.partition_index,
            ): (entry.error_code)
            for topic in response.topics
            for entry in topic.partitions
        }
        await self._handle_commit_answers(answers, commits, sent_at=self.sent_at)

    def _commit_versions(self) -> tuple[int, ...]:
        return (ONE_GROUP_VERSION, NAMES_VERSION, IDS_VERSION)  # 7 has instance ids

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
            group_id=self.group.group_id,
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

    async def _handle_commit_answers(
        self, answers: dict[Partition, ErrorCode], commits: dict[Partition, Commit], *, sent_at: float
    ) -> None:
        now = self.simulation.loop.time()
        if answers.keys() != commits.keys():
            raise BrokenPromise(
                f"{self.name} committed {sorted(commits)}, but the response has {sorted(answers)}"
            )
        worst = ErrorCode.NONE
        for partition, commit in commits.items():
            error = answers[partition]
            if error == ErrorCode.NONE:
                self.group.answered_by_group(asked_at=sent_at)
                self.group.offsets.acknowledged(commit, now=now)
                self.group.ownership.accepted(
                    self.membership,
                    "a commit",
                    sent_at=sent_at,
                    now=now,
                    is_sign_of_life=self.commits_show_life,
                )
            elif error in NOT_COMMITTED:
                self.group.offsets.refused(partition, commit)
            else:
                self.group.offsets.given_up(commit, now=now)
            if error != ErrorCode.NONE:
                worst = error
        if worst != ErrorCode.NONE:
            await self._commit_refused(worst)

    @abstractmethod
    async def _commit_refused(self, error: ErrorCode) -> None:
        """React to a rejected commit."""
