"""Where a follower continues whose fetch offset the leader does not have.

Either the leader's log ends before it, after an unclean election, or it starts after it, because the follower was away
while the leader deleted records. The follower asks with ListOffsets, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from penstock.metadata.errors import Refused
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.replication.fetcher import FollowerReplica, Key


class Reset(NamedTuple):
    """Truncate to `offset`, or delete everything and start there."""

    offset: int
    is_full: bool


async def find_resets(
    ask: Callable[[ListOffsetsRequest], Awaitable[Any]], replicas: Sequence[FollowerReplica], *, node_id: int
) -> dict[Key, Reset]:
    """The resets of the replicas that need one, and for which the leader answered. RequestFailed from `ask`."""
    latest, earliest = await asyncio.gather(
        ask(_request(replicas, LATEST_TIMESTAMP, node_id)),
        ask(_request(replicas, EARLIEST_TIMESTAMP, node_id)),
    )
    end_offsets, start_offsets = _offsets(latest), _offsets(earliest)
    resets = {}
    for replica in replicas:
        name = (replica.topic, replica.index)
        if name in end_offsets and name in start_offsets:
            try:
                end_offset = replica.position().offset
            except Refused:  # its log directory failed meanwhile
                continue
            reset = choose_reset(
                end_offset,
                leader_start_offset=start_offsets[name],
                leader_end_offset=end_offsets[name],
            )
            if reset is not None:
                resets[replica.topic_id, replica.index] = reset
    return resets


def choose_reset(end_offset: int, *, leader_start_offset: int, leader_end_offset: int) -> Reset | None:
    """What a log that ends at `end_offset` must do; None if the leader has that offset, so that it only tries again."""
    if leader_end_offset < end_offset:
        return Reset(leader_end_offset, is_full=False)
    if leader_start_offset > end_offset:
        return Reset(leader_start_offset, is_full=True)
    return None


def _request(replicas: Sequence[FollowerReplica], timestamp: int, node_id: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for replica in replicas:
        topic = topics.setdefault(replica.topic, ListOffsetsTopic(name=replica.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=replica.index, current_leader_epoch=replica.leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))


def _offsets(response: ListOffsetsResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.offset
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE and partition.offset >= 0
    }
