"""ListOffsets (key 2): the offset of a timestamp, or the first or last offset of a partition. Served: v0 to v11.

v0 returns a list of segment start offsets before the timestamp, newest first. v1 returns one offset and its timestamp.
v2 adds the isolation level, v4 leader epochs, v5 OFFSET_NOT_AVAILABLE. Special timestamps: -1 latest, -2 earliest, -3
the record with the largest timestamp (v7), -4 earliest on local disk (v8), -5 latest in tiered storage (v9), -6 the
earliest that is not tiered yet (v11). v10 adds a timeout for tiered storage, which does not exist here.

A lookup by time decodes one batch. Many lookups are done in several turns of the loop. A batch that is large when
decompressed is decoded in the slow lane, and pages that are not in memory are read in a worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.protocol.constants import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_CONSUMER_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_OFFSET,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_COMMITTED,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.records.batch import NO_TIMESTAMP
from penstock.records.errors import RecordsError, TooLarge
from penstock.replication.partition import Partition
from penstock.storage.errors import StorageError
from penstock.storage.log import Log
from penstock.storage.log_reader import TimestampedOffset
from penstock.storage.pages import ColdPages, when_loaded

SINCE_VERSION = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_OFFSET: 11,
}

LOOKUPS_AT_ONCE = 16  # by time, per turn of the loop; each decodes one batch, which takes up to 3 ms
OPENED_BYTES_MAX = 1 << 20  # decompressed on the event loop; larger batches use the slow lane

NOT_AVAILABLE_VERSION = 5


def handle(
    broker: Broker, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    lookups = Lookups(broker, request, context)
    if lookups.by_time_count <= LOOKUPS_AT_ONCE:
        try:
            return lookups.run()
        except (TooLarge, ColdPages):
            pass  # a batch is large, or not in memory
    return lookups.run_in_turns()


class Lookups:
    """The lookups of one request."""

    def __init__(self, broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> None:
        self._broker = broker
        self._request = request
        self._version = context.version
        self._peer_host = context.peer_host
        self._counts = Counter(
            (topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions
        )
        self.by_time_count = sum(
            wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP
            for topic in request.topics
            for wanted in topic.partitions
        )

    def run(self) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=[self._look_up(topic.name, each) for each in topic.partitions]
                )
                for topic in self._request.topics
            ]
        )

    async def run_in_turns(self) -> ListOffsetsResponse:
        response = ListOffsetsResponse(topics=[])
        done = 0
        for topic in self._request.topics:
            results = []
            for wanted in topic.partitions:
                look_up = partial(self._look_up, topic.name, wanted)
                try:
                    results.append(await when_loaded(look_up, self._broker.runtime.workers))
                except TooLarge:
                    results.append(await self._look_up_slowly(topic.name, wanted))
                done += 1
                if done % LOOKUPS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=results))
        return response

    def _look_up(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        version = self._version
        try:
            partition = self._find_partition(topic, wanted)
            end_offset = _visible_end(partition, self._request)
            if version == 0:
                return ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index,
                    old_style_offsets=_segment_offsets(
                        partition, wanted.timestamp, end_offset=end_offset, count=wanted.max_num_offsets
                    ),
                )
            found = _find(partition, wanted.timestamp, end_offset, self._request)
            return self._result(wanted, *found)
        except TooLarge:
            raise
        except (Refused, StorageError, RecordsError) as error:
            return self._refuse(wanted, error)

    async def _look_up_slowly(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        """The same for a batch that is large when decompressed."""
        try:
            partition = self._find_partition(topic, wanted)
            log = partition.log
            try:
                found = await _find_in_lane(log, wanted.timestamp, self._broker, host=self._peer_host)
            except OSError as error:
                raise log.io.fail(error, f"reading {log.folder}") from error
            end_offset = _visible_end(partition, self._request)
            return self._result(wanted, *_visible(partition, found, end_offset, self._request))
        except (Refused, StorageError, RecordsError) as error:
            return self._refuse(wanted, error)

    def _find_partition(self, topic: str, wanted: ListOffsetsPartition) -> Partition:
        version, timestamp = self._version, wanted.timestamp
        if self._counts[topic, wanted.partition_index] > 1 and version > 0:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"the request names {topic}-{wanted.partition_index} more than once",
            )
        if timestamp < 0 and version < SINCE_VERSION.get(timestamp, version + 1):
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"ListOffsets v{version} does not support the timestamp {timestamp}",
            )
        partition = self._broker.partitions.find(topic, wanted.partition_index)
        partition.check_access(
            leader_epoch=wanted.current_leader_epoch,
            leader_only=self._request.replica_id != DEBUGGING_CONSUMER_ID,
        )
        return partition

    def _result(
        self, wanted: ListOffsetsPartition, timestamp: int, offset: int, epoch: int
    ) -> ListOffsetsPartitionResponse:
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch if self._version >= 4 else -1,
        )

    def _refuse(
        self, wanted: ListOffsetsPartition, refusal: Refused | StorageError | RecordsError
    ) -> ListOffsetsPartitionResponse:
        error = refusal.error if isinstance(refusal, Refused) else ErrorCode[refusal.error_name]
        if error == ErrorCode.OFFSET_NOT_AVAILABLE and self._version < NOT_AVAILABLE_VERSION:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """The end offset that this client can see."""
    if request.replica_id != CONSUMER_REPLICA_ID:
        return partition.log.end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _find(
    partition: Partition, timestamp: int, end_offset: int, request: ListOffsetsRequest
) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch, or -1."""
    log = partition.log
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return NO_TIMESTAMP, log.start_offset, log.epochs.epoch_for(log.start_offset)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_OFFSET):
        return NO_TIMESTAMP, -1, -1  # nothing is tiered
    if timestamp == LATEST_TIMESTAMP:
        _check_caught_up(partition, request)
        return NO_TIMESTAMP, end_offset, partition.leader_epoch
    if timestamp == MAX_TIMESTAMP:
        found = log.reader.max_timestamp(end_offset=log.end_offset, limit_bytes=OPENED_BYTES_MAX)
    else:
        found = log.reader.offset_for_timestamp(
            timestamp, end_offset=log.end_offset, limit_bytes=OPENED_BYTES_MAX
        )
    return _visible(partition, found, end_offset, request)


async def _find_in_lane(log: Log, timestamp: int, broker: Broker, *, host: str) -> TimestampedOffset | None:
    lane, workers = broker.slow_lane, broker.runtime.workers
    if timestamp == MAX_TIMESTAMP:
        batch = await when_loaded(log.reader.batch_of_max_timestamp, workers)
        return None if batch is None else await lane.run(batch.first_record, host=host)
    offset = log.start_offset
    while True:
        batch = await when_loaded(
            partial(log.reader.batch_at_timestamp, timestamp, from_offset=offset), workers
        )
        found = None if batch is None else await lane.run(batch.first_record, host=host)
        if batch is None or found is not None:
            return found
        offset = batch.header.next_offset


def _visible(
    partition: Partition, found: TimestampedOffset | None, end_offset: int, request: ListOffsetsRequest
) -> tuple[int, int, int]:
    """The found offset, unless it is after the end offset that this client can see."""
    if found is None or found.offset >= end_offset:
        _check_caught_up(partition, request)
        return NO_TIMESTAMP, -1, -1
    return found.timestamp_ms, found.offset, found.leader_epoch


def _check_caught_up(partition: Partition, request: ListOffsetsRequest) -> None:
    """A new leader does not know the real high watermark until its followers have fetched from it. Clients must not see
    the end offset decrease meanwhile (KIP-207)."""
    if request.replica_id == CONSUMER_REPLICA_ID and partition.epoch_start_offset > partition.high_watermark:
        raise Refused(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"the high watermark of {partition} is {partition.high_watermark}, still below the start offset of its "
            f"leader epoch, {partition.epoch_start_offset}; try again",
        )


def _segment_offsets(partition: Partition, timestamp: int, *, end_offset: int, count: int) -> list[int]:
    """Start offsets of segments that were last written at `timestamp` or before, newest first, after the end offset."""
    log = partition.log
    starts = [
        (max(offset, log.start_offset), written_ms) for offset, written_ms in log.reader.segment_times()
    ]
    if timestamp == EARLIEST_TIMESTAMP:
        offsets = [starts[0][0]]
    elif timestamp == LATEST_TIMESTAMP:
        offsets = [end_offset, *(offset for offset, _ in reversed(starts))]
    else:
        offsets = [offset for offset, written_ms in reversed(starts) if written_ms <= timestamp]
    return [offset for offset in dict.fromkeys(offsets) if offset <= end_offset][: max(count, 0)]
