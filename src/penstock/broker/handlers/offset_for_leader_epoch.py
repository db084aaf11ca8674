"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch. Served: v0 to v4.

v1 returns the epoch that was found, v2 fences by the current leader epoch of the client, v3 adds the replica id.
Consumers use it after a leader change to detect that their position was truncated (KIP-320).
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_find_end(broker, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _find_end(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.partitions.find(topic, wanted.partition)
        partition.check_access(leader_epoch=wanted.current_leader_epoch, leader_only=True)
        epoch, end_offset = partition.log.epoch_end_offset(wanted.leader_epoch)
    except Refused as refusal:
        return EpochEndOffset(error_code=refusal.error, partition=wanted.partition)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
