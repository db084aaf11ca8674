"""A client that deletes the oldest records of a topic (DeleteRecords), at any offset, also inside a batch.

Its records are promised to nobody, so they have a ledger of their own. What is checked is that the replicas are in sync
again after the faults, and equal.
"""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from simulator.cluster import SimulatedCluster
from simulator.clusters.client import NO_LEADER, ClusterClient, NoAnswer
from simulator.clusters.producers import IsOver
from simulator.world import BrokenPromise

LATEST = -1
PAUSE_S_MAX = 0.5
TIMEOUT_MS = 1_000


class Trimmer(ClusterClient):
    def __init__(self, cluster: SimulatedCluster, name: str, topic: str, is_over: IsOver) -> None:
        super().__init__(cluster, name)
        self._topic = topic
        self._is_over = is_over

    async def run(self) -> None:
        while not self._is_over():
            try:
                view = await self.find_topic(self._topic)
                if view is not None:
                    index = self.random.randrange(len(view.leaders))
                    leader, _ = view.leaders[index]
                    if leader != NO_LEADER:
                        await self._trim(leader, index)
            except NoAnswer:
                pass
            await self.pause(PAUSE_S_MAX)

    async def _trim(self, leader: int, index: int) -> None:
        wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=LATEST)
        offsets = await self.ask(
            leader,
            ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=self._topic, partitions=[wanted])]
            ),
        )
        (found,) = offsets.topics[0].partitions
        if found.error_code != ErrorCode.NONE or found.offset <= 0:
            return
        offset = self.random.randint(1, found.offset)
        deleted = await self.ask(
            leader,
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=self._topic,
                        partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)],
                    )
                ],
                timeout_ms=TIMEOUT_MS,
            ),
        )
        (answer,) = deleted.topics[0].partitions
        # The high watermark of a new leader may still be lower than that of the last one.
        is_expected = answer.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
        if not is_expected and not answer.error_code.is_retriable:
            raise BrokenPromise(f"{self._topic}-{index} rejected DeleteRecords: {answer.error_code.name}")
