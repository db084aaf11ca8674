"""Requests that look up positions in partitions, and their responses. No I/O.

ListOffsets finds the ends of a log and the offset of a timestamp; OffsetForLeaderEpoch finds the end of an epoch.
Leaders serve both, so a lookup of many partitions is one request per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.client.cluster import Cluster, TopicPartition
from penstock.protocol.constants import CONSUMER_REPLICA_ID
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
from penstock.records.batch import NO_LEADER_EPOCH

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class OffsetAndTimestamp(NamedTuple):
    """The first record with a timestamp, or a later one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


class ListedOffset(NamedTuple):
    partition: TopicPartition
    error: ErrorCode
    offset: int
    """-1 if there is none."""
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
    """One request per node; partitions without a leader are left out."""
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
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=listed) for name, listed in topics.items()],
            timeout_ms=timeout_ms,
        )
        for node_id, topics in by_node.items()
    }


def read_list_offsets(response: ListOffsetsResponse) -> Iterator[ListedOffset]:
    for topic in response.topics:
        for result in topic.partitions:
            yield ListedOffset(
                TopicPartition(topic.name, result.partition_index),
                result.error_code,
                result.offset,
                result.timestamp,
                result.leader_epoch,
            )


class ReadEpoch(NamedTuple):
    """The epoch of the last record read, and the node to ask."""

    partition: TopicPartition
    epoch: int
    node_id: int
    leader_epoch: int = NO_LEADER_EPOCH


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
            replica_id=CONSUMER_REPLICA_ID,
            topics=[OffsetForLeaderTopic(topic=name, partitions=each) for name, each in topics.items()],
        )
        for node_id, topics in by_node.items()
    }


def read_epoch_ends(response: OffsetForLeaderEpochResponse) -> Iterator[EpochEnd]:
    for topic in response.topics:
        for result in topic.partitions:
            yield EpochEnd(
                TopicPartition(topic.topic, result.partition),
                result.error_code,
                result.leader_epoch,
                result.end_offset,
            )
