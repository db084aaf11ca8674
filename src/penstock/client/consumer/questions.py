"""What a consumer can ask the cluster without reading: partitions, topics and offsets. Nothing here creates a topic."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.cluster import PartitionInfo, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.finder import list_offsets
from penstock.client.consumer.lookups import ListedOffset
from penstock.client.consumer.topics import TOPIC_PATIENCE_MS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest


class Questions:
    def __init__(self, client: ClusterClient, *, isolation_level: int) -> None:
        self._client = client
        self._isolation_level = isolation_level

    async def partitions_for(self, topic: str, deadline_ms: int) -> tuple[PartitionInfo, ...]:
        cluster = await self._client.topics([topic], deadline_ms=deadline_ms, patience_ms=TOPIC_PATIENCE_MS)
        return cluster.topics[topic].partitions

    async def topic_names(self, deadline_ms: int) -> frozenset[str]:
        response = await self._client.ask_any(MetadataRequest(topics=None), deadline_ms=deadline_ms)
        return frozenset(topic.name for topic in response.topics if topic.error_code == ErrorCode.NONE)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, ListedOffset]:
        if not timestamps:
            return {}
        return await list_offsets(
            self._client, timestamps, isolation_level=self._isolation_level, deadline_ms=deadline_ms
        )
