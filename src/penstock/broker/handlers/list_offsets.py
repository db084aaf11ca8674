"""ListOffsets (key 2): the offset that belongs to a timestamp, or to one end of a partition. Served: v0 to
v11.

v0 returns a list: where segments begin that were written before the time, newest first. v1 returns one offset
and its timestamp. v2 adds isolation, v4 leader epochs, v5 OFFSET_NOT_AVAILABLE. Special timestamps: -1
latest, -2 earliest, -3 that of the largest timestamp (v7), -4 earliest on local disk (v8), -5 latest in
tiered storage (v9), -6 earliest that waits to be tiered (v11). v10 adds a timeout for lookups in tiered
storage; there is none here, so nothing ever waits.
"""

from __future__ import annotations

from collections import Counter

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.replication.partition import Partition
from penstock.storage.errors import StorageError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

CONSUMER_ID = -1
DEBUGGING_CONSUMER_ID = -2
READ_COMMITTED = 1
NOT_AVAILABLE_VERSION = 5
NO_TIMESTAMP = -1


def handle(broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions
    )
    response = ListOffsetsResponse(topics=[])
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            try:
                if counts[topic.name, wanted.partition_index] > 1 and context.version > 0:
                    raise Refused(ErrorCode.INVALID_REQUEST, "a partition is asked for twice")
                answers.append(_look_up(broker, topic.name, wanted, request, context.version))
            except Refused as refusal:
                answers.append(_refuse(refusal.error, wanted, context.version))
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _look_up(
    broker: Broker, topic: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> ListOffsetsPartitionResponse:
    timestamp = wanted.timestamp
    if timestamp < 0 and version < SINCE_VERSION.get(timestamp, version + 1):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"v{version} has no timestamp {timestamp}")
    partition = broker.partitions.find(topic, wanted.partition_index)
    partition.check_access(
        leader_epoch=wanted.current_leader_epoch, leader_only=request.replica_id != DEBUGGING_CONSUMER_ID
    )
    end_offset = _visible_end(partition, request)
    try:
        if version == 0:
            return ListOffsetsPartitionResponse(
                partition_index=wanted.partition_index,
                old_style_offsets=_segment_offsets(
                    partition, timestamp, end_offset=end_offset, count=wanted.max_num_offsets
                ),
            )
        found_timestamp, offset, epoch = _find(partition, timestamp, end_offset, request)
    except StorageError as error:
        raise Refused(ErrorCode[error.error_name], str(error)) from error
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found_timestamp,
        offset=offset,
        leader_epoch=epoch if version >= 4 else -1,
    )


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where the log ends for this reader."""
    if request.replica_id != CONSUMER_ID:
        return partition.log.end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _find(
    partition: Partition, timestamp: int, end_offset: int, request: ListOffsetsRequest
) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch; -1 where there is none."""
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return NO_TIMESTAMP, log.start_offset, log.epochs.epoch_for(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NO_TIMESTAMP, -1, -1  # nothing is tiered
    if timestamp == LATEST:
        _check_caught_up(partition, request)
        return NO_TIMESTAMP, end_offset, partition.leader_epoch
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp(end_offset=log.end_offset)
    else:
        found = log.offset_for_timestamp(timestamp, end_offset=log.end_offset)
    if found is None or found.offset >= end_offset:
        _check_caught_up(partition, request)
        return NO_TIMESTAMP, -1, -1
    return found.timestamp_ms, found.offset, found.leader_epoch


def _check_caught_up(partition: Partition, request: ListOffsetsRequest) -> None:
    """A new leader does not know the true high watermark until its followers have fetched from it; a client
    must not see the log's end go back meanwhile (KIP-207)."""
    if request.replica_id == CONSUMER_ID and partition.epoch_start_offset > partition.high_watermark:
        raise Refused(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition} has its high watermark at {partition.high_watermark}, before its leader's start "
            f"at {partition.epoch_start_offset}",
        )


def _segment_offsets(partition: Partition, timestamp: int, *, end_offset: int, count: int) -> list[int]:
    """Where segments begin that were last written at `timestamp` or before, newest first, and the end as the
    newest of all."""
    log = partition.log
    starts = [(max(offset, log.start_offset), written_ms) for offset, written_ms in log.segment_times()]
    if timestamp == EARLIEST:
        offsets = [starts[0][0]]
    elif timestamp == LATEST:
        offsets = [end_offset, *(offset for offset, _ in reversed(starts))]
    else:
        offsets = [offset for offset, written_ms in reversed(starts) if written_ms <= timestamp]
    return [offset for offset in dict.fromkeys(offsets) if offset <= end_offset][: max(count, 0)]


def _refuse(error: ErrorCode, wanted: ListOffsetsPartition, version: int) -> ListOffsetsPartitionResponse:
    if error == ErrorCode.OFFSET_NOT_AVAILABLE and version < NOT_AVAILABLE_VERSION:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
