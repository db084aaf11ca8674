"""Requests that find a place in partitions, and what their answers say. No I/O.

ListOffsets finds the ends of a log and the offset of a time; OffsetForLeaderEpoch tells where an epoch ended. Both are
for leaders, so one question about many partitions becomes one request for each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.client.cluster import NO_EPOCH, Cluster, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

CONSUMER = -1  # what a consumer is where followers say who they are
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


class ListedOffset(NamedTuple):
    partition: TopicPartition
    error: ErrorCode
    offset: int
    """-1 where there is none."""
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    partition: TopicPartition
    error: ErrorCode
    leader_epoch: int
    end_offset: int


def list_offsets_requests(
    wanted: Mapping[TopicPartition, int], cluster: Cluster, *, isolation_level: int, timeout_ms: int
) -> dict[int, ListOffsetsRequest]:
    """One for each node; partitions without a leader are left out."""
    by_node: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for partition, timestamp in wanted.items():
        leader = cluster.leader_of(partition)
        if leader is not None:
            topics = by_node.setdefault(leader.node_id, {})
            topics.setdefault(partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=leader.epoch,
                    timestamp=timestamp,
                )
            )
    return {
        node_id: ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=listed) for name, listed in topics.items()],
            timeout_ms=timeout_ms,
        )
        for node_id, topics in by_node.items()
    }


def read_list_offsets(response: ListOffsetsResponse) -> Iterator[ListedOffset]:
    for topic in response.topics:
        for told in topic.partitions:
            yield ListedOffset(
                TopicPartition(topic.name, told.partition_index),
                told.error_code,
                told.offset,
                told.timestamp,
                told.leader_epoch,
            )


class ReadEpoch(NamedTuple):
    """Up to which epoch somebody has read, and whom it asks."""

    partition: TopicPartition
    epoch: int
    node_id: int
    leader_epoch: int = NO_EPOCH


def epoch_end_requests(asked: Iterable[ReadEpoch]) -> dict[int, OffsetForLeaderEpochRequest]:
    by_node: dict[int, dict[str, list[OffsetForLeaderPartition]]] = {}
    for partition, epoch, node_id, leader_epoch in asked:
        by_node.setdefault(node_id, {}).setdefault(partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=partition.partition, current_leader_epoch=leader_epoch, leader_epoch=epoch
            )
        )
    return {
        node_id: OffsetForLeaderEpochRequest(
            replica_id=CONSUMER,
            topics=[OffsetForLeaderTopic(topic=name, partitions=each) for name, each in topics.items()],
        )
        for node_id, topics in by_node.items()
    }


def read_epoch_ends(response: OffsetForLeaderEpochResponse) -> Iterator[EpochEnd]:
    for topic in response.topics:
        for told in topic.partitions:
            yield EpochEnd(
                TopicPartition(topic.topic, told.partition),
                told.error_code,
                told.leader_epoch,
                told.end_offset,
            )
