"""Consumers of a cluster. What a consumer has read is a promise: it is committed, so no fail-over may change it.

A fetch carries the newest leader epoch that the reader has seen, as consumers do (KIP-320), so that a leader that was
replaced and has not noticed cannot answer it.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.types import Uuid
from simulator.checks.ledger import FoundRecord, Key, Ledger
from simulator.clients.consumers import read_records
from simulator.cluster import SimulatedCluster
from simulator.clusters.client import NO_LEADER, ClusterClient, NoAnswer
from simulator.clusters.producers import IsOver
from simulator.world import BrokenPromise

WAIT_MS_MAX = 400
PARTITION_BYTES = 20_000
FETCHES_PER_VIEW = 20


class Reader(ClusterClient):
    """Reads topics from the beginning, one partition at a time, until the scenario ends."""

    def __init__(
        self, cluster: SimulatedCluster, name: str, topics: Sequence[str], ledger: Ledger, is_over: IsOver
    ) -> None:
        super().__init__(cluster, name)
        self._topics = topics
        self._ledger = ledger
        self._is_over = is_over
        self._positions: dict[Key, int] = {}
        self._leaders: dict[Key, tuple[int, int]] = {}
        """Epoch and leader, the newest that was seen."""

    async def run(self) -> None:
        while not self._is_over():
            try:
                keys = await self._look()
                for _ in range(FETCHES_PER_VIEW):
                    if not keys or self._is_over() or not await self._fetch(*self.random.choice(keys)):
                        break
            except NoAnswer:
                pass
            await self.pause()

    async def read_all(self, topic: str, topic_id: Uuid, index: int) -> list[FoundRecord] | None:
        """Everything that is committed, when all faults are over. None: try again."""
        self._positions.pop((topic_id, index), None)
        if (topic, (topic_id, index)) not in await self._look(topic):
            return None
        found: list[FoundRecord] = []
        while True:
            data = await self._ask_leader(topic, (topic_id, index), max_wait_ms=0)
            if data is None or data.error_code != ErrorCode.NONE:
                return None
            records = self._take(topic, (topic_id, index), data)
            found += records
            if not records:
                return found

    async def _look(self, *topics: str) -> list[tuple[str, Key]]:
        """The partitions that can be read now."""
        keys = []
        for topic in topics or self._topics:
            view = await self.find_topic(topic)
            for index, (leader, epoch) in enumerate(view.leaders if view is not None else ()):
                assert view is not None, "it has leaders"
                key = (view.topic_id, index)
                self._leaders[key] = max(self._leaders.get(key, (-1, NO_LEADER)), (epoch, leader))
                if self._leaders[key][1] != NO_LEADER:
                    keys.append((topic, key))
        return keys

    async def _fetch(self, topic: str, key: Key) -> bool:
        """False: look up leaders again."""
        data = await self._ask_leader(topic, key, max_wait_ms=self.random.randint(0, WAIT_MS_MAX))
        if data is None:
            return False
        if data.error_code == ErrorCode.NONE:
            self._take(topic, key, data)
            return True
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise BrokenPromise(
                f"{self.name} has read {topic}-{key[1]} up to {self._positions.get(key, 0)} in leader epoch"
                f" {self._leaders[key][0]} or before, which is now out of range"
            )
        if not data.error_code.is_retriable:
            raise BrokenPromise(f"{self.name} cannot read {topic}-{key[1]}: {data.error_code.name}")
        return False

    async def _ask_leader(self, topic: str, key: Key, *, max_wait_ms: int) -> PartitionData | None:
        epoch, leader = self._leaders[key]
        wanted = FetchPartition(
            partition=key[1],
            fetch_offset=self._positions.get(key, 0),
            current_leader_epoch=epoch,
            partition_max_bytes=PARTITION_BYTES,
        )
        response = await self.ask(
            leader,
            FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                topics=[FetchTopic(topic_id=key[0], partitions=[wanted])],
            ),
        )
        if response.error_code != ErrorCode.NONE or not response.responses:
            return None
        data: PartitionData = response.responses[0].partitions[0]
        return data

    def _take(self, topic: str, key: Key, data: PartitionData) -> list[FoundRecord]:
        ledger = self._ledger.get(topic, *key)
        position = self._positions.get(key, 0)
        records = read_records(data, position, ledger.name)
        for record in records:
            ledger.read(record)
        self._positions[key] = position + len(records)
        return records
