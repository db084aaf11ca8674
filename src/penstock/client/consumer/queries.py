"""Queries that need no subscription: partitions, topics and offsets. No query creates a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.cluster import PartitionInfo, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.lookups import ListedOffset, OffsetAndTimestamp
from penstock.client.consumer.offset_finder import list_offsets
from penstock.client.consumer.topic_lookup import TOPIC_PATIENCE_MS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest


class ClusterQueries:
    def __init__(self, client: ClusterClient, *, isolation_level: int) -> None:
        self._client = client
        self._isolation_level = isolation_level

    async def partitions_for(self, topic: str, deadline_ms: int) -> tuple[PartitionInfo, ...]:
        cluster = await self._client.topics([topic], deadline_ms=deadline_ms, patience_ms=TOPIC_PATIENCE_MS)
        return cluster.topics[topic].partitions

    async def topic_names(self, deadline_ms: int) -> frozenset[str]:
        response = await self._client.ask_any(MetadataRequest(topics=None), deadline_ms=deadline_ms)
        return frozenset(topic.name for topic in response.topics if topic.error_code == ErrorCode.NONE)

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int, deadline_ms: int
    ) -> dict[TopicPartition, int]:
        """The offset of one timestamp, which may be EARLIEST_TIMESTAMP or LATEST_TIMESTAMP, in each partition."""
        listed = await self.list_offsets(dict.fromkeys(partitions, timestamp), deadline_ms)
        return {partition: found.offset for partition, found in listed.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return {
            partition: None
            if found.offset < 0
            else OffsetAndTimestamp(
                found.offset, found.timestamp_ms, found.leader_epoch if found.leader_epoch >= 0 else None
            )
            for partition, found in (await self.list_offsets(timestamps, deadline_ms)).items()
        }

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, ListedOffset]:
        if not timestamps:
            return {}
        return await list_offsets(
            self._client, timestamps, isolation_level=self._isolation_level, deadline_ms=deadline_ms
        )
