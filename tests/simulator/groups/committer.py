"""A client that commits offsets without being a member, as fast as it gets responses.

No other client commits for its group, so there is always one last commit, and a coordinator that answers before its
log is synced is caught quickly.
"""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from simulator.clients.client import LostConnection
from simulator.groups.group import SimulatedGroup
from simulator.groups.offset_client import COORDINATOR_ERRORS, IDS_VERSION, OffsetClient
from simulator.groups.ownership import Partition
from simulator.simulation import BrokenPromise, Simulation

BACKOFF_S = 0.1
PAUSE_S_MAX = 0.1
IN_FLIGHT_MAX = 3


class Committer(OffsetClient):
    def __init__(self, simulation: Simulation, name: str, group: SimulatedGroup) -> None:
        super().__init__(simulation, name)
        self.topic_ids = {}
        self.group = group
        self._number = 0

    async def run(self) -> None:
        topic = self.group.topics[0]
        while not self.group.conditions.is_over():
            try:
                found = await self.find_topic(topic)
                if found is None:
                    await asyncio.sleep(BACKOFF_S)
                    continue
                topic_id, _ = found
                self.topic_ids[topic] = topic_id
                self.group.ledger.get(topic, topic_id, 0)
                await self._commit_some((topic_id, 0))
                if self.random.random() < 0.3:
                    await self.check_offset((topic_id, 0))
                await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))
            except LostConnection:
                continue

    async def _commit_some(self, partition: Partition) -> None:
        """Send several commits at once. The last successful one counts."""
        offsets = self.group.offsets
        sent = []
        for _ in range(self.random.randint(1, IN_FLIGHT_MAX)):
            self._number += 1
            commit = offsets.sent(
                partition,
                self._number,
                f"{self.name}/{self._number}",
                now=self.simulation.loop.time(),
                connection=f"connection {self.connections}",
                number=self._number,
            )
            request = self._make_request(partition, self._number, commit.note)
            try:
                sent.append((commit, request, self.send(request, version=IDS_VERSION)))
            except LostConnection:
                offsets.refused(partition, commit)
                break
        for at, (commit, request, future) in enumerate(sent):
            try:
                response = await self.answer(request, future)
            except LostConnection:
                for unanswered, _, _ in sent[at:]:
                    offsets.given_up(unanswered, now=self.simulation.loop.time())
                raise
            now = self.simulation.loop.time()
            error = response.topics[0].partitions[0].error_code
            if error == ErrorCode.NONE:
                offsets.acknowledged(commit, now=now)
                continue
            offsets.given_up(commit, now=now)
            if error not in COORDINATOR_ERRORS:
                raise BrokenPromise(f"{self.name} cannot commit: {error.name}")
            await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    def _make_request(self, partition: Partition, offset: int, note: str) -> OffsetCommitRequest:
        topic_id, index = partition
        entry = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=note
        )
        return OffsetCommitRequest(
            group_id=self.group.group_id,
            topics=[OffsetCommitRequestTopic(topic_id=topic_id, partitions=[entry])],
        )

    async def check_offset(self, partition: Partition) -> None:
        reported = await self.fetch_offsets(self.group, [partition], version=IDS_VERSION)
        if isinstance(reported, ErrorCode) and reported not in COORDINATOR_ERRORS:
            raise BrokenPromise(f"{self.name} cannot fetch its offset: {reported.name}")
