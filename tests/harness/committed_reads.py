"""Reads of transactional records: read_committed fetches with all their fields, and offsets by isolation level."""

from __future__ import annotations

from typing import Any

from harness.offset_requests import topic_id_of
from harness.requests import ask
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.records import kernel

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TOPIC_ID_FETCH_VERSION = 13

MARKERS = {b"\0\0\0\0": "abort", b"\0\0\0\1": "commit"}
"""Keys of the control records that end transactions: version and type."""


def read(connection: WireConnection, topic: str, *, version: int = 12, **options: Any) -> PartitionData:
    """Fetch one partition, with the options of `fetch_request`."""
    (answered,) = ask(
        connection, fetch_request(connection, topic, version=version, **options), version
    ).responses
    (data,) = answered.partitions
    assert isinstance(data, PartitionData)
    return data


def seen(data: PartitionData) -> list[tuple[int, list[bytes | None] | str]]:
    """Base offset and values of every batch; of a marker, its type."""
    found: list[tuple[int, list[bytes | None] | str]] = []
    position = 0
    for header in kernel.read_headers(data.records or b""):
        records = list(kernel.iterate_records(data.records, position))
        if header.is_control:
            (record,) = records
            found.append((header.base_offset, MARKERS[record.key or b""]))
        else:
            found.append((header.base_offset, [record.value for record in records]))
        position += header.size_bytes
    return found


def aborted(data: PartitionData) -> list[tuple[int, int]] | None:
    """Producer id and first offset of every transaction that the consumer has to skip."""
    if data.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions]


def committed_values(data: PartitionData) -> list[bytes | None]:
    """The values that a read_committed consumer returns from one fetch."""
    assert data.aborted_transactions is not None
    begun = sorted(data.aborted_transactions, key=lambda each: each.first_offset, reverse=True)
    left_out: set[int] = set()
    found: list[bytes | None] = []
    position = 0
    for header in kernel.read_headers(data.records or b""):
        while begun and begun[-1].first_offset <= header.last_offset:
            left_out.add(begun.pop().producer_id)
        if header.is_control:
            left_out.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in left_out):
            found += [record.value for record in kernel.iterate_records(data.records, position)]
        position += header.size_bytes
    return found


def fetch_request(
    connection: WireConnection,
    topic: str,
    *,
    partition: int = 0,
    offset: int = 0,
    version: int = 12,
    isolation_level: int = READ_COMMITTED,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """By default read_committed, without waiting."""
    named = (
        {"topic": topic} if version < TOPIC_ID_FETCH_VERSION else {"topic_id": topic_id_of(connection, topic)}
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                **named,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
                    )
                ],
            )
        ],
    )


def offset_at(
    connection: WireConnection,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    isolation_level: int = READ_COMMITTED,
    version: int = 7,
) -> tuple[int, int]:
    """Offset and timestamp from ListOffsets."""
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
            )
        ],
    )
    (answered,) = ask(connection, request, version).topics
    (found,) = answered.partitions
    assert found.error_code is ErrorCode.NONE
    return found.offset, found.timestamp
