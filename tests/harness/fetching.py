"""Fetch requests and responses for tests of the fetch handler."""

from __future__ import annotations

from typing import Any

from harness.datapath import DataNode, make_batch, topic_id_of
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from penstock.records import kernel
from penstock.runtime.network import FileSlice

NOW = 1_700_000_000_000


def fetch(
    *partitions: tuple[str, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    replica_id: int = -1,
    isolation_level: int = 0,
    **fields: Any,
) -> FetchRequest:
    """A request for (topic, partition, offset)s. Further fields apply to each partition."""
    return FetchRequest(
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id_of(topic),
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        **fields,
                    )
                ],
            )
            for topic, index, offset in partitions
        ],
    )


def append(node: DataNode, *values: bytes, topic: str = "orders", index: int = 0, **options: Any) -> int:
    """Write one batch and return its size."""
    batch = make_batch(*values, **options)
    node.partition(topic, index).append_as_leader(batch, acks=1, now_ms=NOW)
    return len(batch)


def answers(response: Any) -> list[PartitionData]:
    assert isinstance(response, FetchResponse)
    return [partition for topic in response.responses for partition in topic.partitions]


def only(response: Any) -> PartitionData:
    (partition,) = answers(response)
    return partition


def values(data: PartitionData) -> list[bytes | None]:
    if not isinstance(data.records, FileSlice):
        assert data.records == b""
        return []
    raw, found, position = data.records.read(), [], 0
    for header in kernel.read_headers(raw):
        found += [record.value for record in kernel.iterate_records(raw, position)]
        position += header.size_bytes
    assert position == len(raw)
    return found
