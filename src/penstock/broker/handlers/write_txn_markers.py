"""WriteTxnMarkers (key 27): a coordinator, or an operator with a tool, ends transactions in partitions that this
node leads. Served: v1 to v2.

v2 tells the transaction version, which decides how a marker's epoch is checked. The answer comes when all markers
are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.transaction_markers import LocalMarkers
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.records.control import EndedTransaction

NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""What groups may say; other coordinators expect to hear of partitions."""


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    writing = _Writing(request)
    writing.start(LocalMarkers(broker.partitions, broker.groups, broker.runtime.clock))
    return writing.response() if writing.is_done else writing.wait()


class _Writing:
    """The markers of one request, on their way into the logs."""

    def __init__(self, request: WriteTxnMarkersRequest) -> None:
        self._markers = request.markers
        self._errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
        self._outstanding = sum(
            len(topic.partition_indexes) for marker in self._markers for topic in marker.topics
        )
        self._future: asyncio.Future[None] | None = None

    def start(self, markers: LocalMarkers) -> None:
        for each in self._markers:
            errors = self._errors.setdefault(each.producer_id, {})
            marker = EndedTransaction(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                each.transaction_version,
            )
            partitions = [
                TopicPartition(topic.name, index)
                for topic in each.topics
                for index in topic.partition_indexes
            ]

            def done(
                partition: TopicPartition,
                error: ErrorCode,
                errors: dict[TopicPartition, ErrorCode] = errors,
            ) -> None:
                errors[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER if error in NOT_READY else error
                self._outstanding -= 1
                if self._future is not None and self.is_done and not self._future.done():
                    self._future.set_result(None)

            if _is_of_somebody(marker):
                markers.write(marker, partitions, done)
            else:
                for partition in partitions:
                    done(partition, ErrorCode.INVALID_REQUEST)

    @property
    def is_done(self) -> bool:
        return self._outstanding == 0

    async def wait(self) -> WriteTxnMarkersResponse:
        self._future = asyncio.get_running_loop().create_future()
        await self._future
        return self.response()

    def response(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(errors))
                for producer_id, errors in self._errors.items()
            ]
        )


def _is_of_somebody(marker: EndedTransaction) -> bool:
    return marker.producer_id >= 0 and marker.producer_epoch >= 0 and marker.transaction_version >= 0


def _by_topic(errors: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for partition, error in errors.items():
        topics.setdefault(partition.topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=partition.partition, error_code=error)
        )
    return [WritableTxnMarkerTopicResult(name=name, partitions=results) for name, results in topics.items()]
