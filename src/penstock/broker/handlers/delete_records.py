"""DeleteRecords (key 21): delete the records before an offset, the new log start offset. Served: v0 to v2.

Offset -1 means the high watermark. The response waits up to `timeout_ms` until all in-sync replicas have deleted the
records.
"""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.metadata.errors import Refused
from penstock.metadata.names import is_internal
from penstock.protocol.constants import UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.replication.deletion import delete_records, wait_for_deletion
from penstock.replication.purgatory import DelayedOperation


def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    pending = PendingDeletion(broker)
    for topic in request.topics:
        pending.response.topics.append(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[pending.delete(topic.name, wanted) for wanted in topic.partitions],
            )
        )
    if pending.outstanding == 0:
        return pending.response
    return pending.start(request.timeout_ms)


class PendingDeletion:
    """A response that waits for the replicas, or for its timeout."""

    def __init__(self, broker: Broker) -> None:
        self.response = DeleteRecordsResponse(topics=[])
        self.outstanding = 0
        self._partitions = broker.partitions
        self._future: asyncio.Future[DeleteRecordsResponse] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._waits: list[DelayedOperation] = []

    def delete(self, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=UNKNOWN_OFFSET
        )
        try:
            partition = self._partitions.find(topic, wanted.partition_index)
            if is_internal(topic):
                raise Refused(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"records of the internal topic {topic} cannot be deleted",
                )
            offset = delete_records(partition, wanted.offset)
        except Refused as refusal:
            result.error_code = refusal.error
            return result

        def deleted(error: ErrorCode) -> None:
            result.error_code = error
            if error == ErrorCode.NONE:
                result.low_watermark = partition.low_watermark
            self.outstanding -= 1
            # Without a timer, the rest of the request is still being processed.
            if self.outstanding == 0 and self._timer is not None:
                self._finish()

        wait = wait_for_deletion(partition, offset, deleted)
        if wait is None:
            result.low_watermark = partition.low_watermark
        else:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT  # until it is confirmed
            self.outstanding += 1
            self._waits.append(wait)
        return result

    def start(self, timeout_ms: int) -> asyncio.Future[DeleteRecordsResponse]:
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._finish)
        self._future.add_done_callback(self._clean_up)
        return self._future

    def _finish(self) -> None:
        if not self._future.done():  # the client may have disconnected
            self._future.set_result(self.response)

    def _clean_up(self, _: asyncio.Future[DeleteRecordsResponse]) -> None:
        """Responded, timed out or disconnected: remove the timer and the waits."""
        if self._timer is not None:
            self._timer.cancel()
        for wait in self._waits:
            wait.cancel()
