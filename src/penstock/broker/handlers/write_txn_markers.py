"""WriteTxnMarkers (key 27): write transaction markers to partitions that this node leads. Served: v1 to v2.

Coordinators send it, and operators with a tool. v2 adds the transaction version, which determines how the epoch of a
marker is checked. The response is sent when all markers are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from itertools import islice

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.transaction_markers import MARKERS_AT_ONCE, LocalMarkers
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.records.control import TxnMarkerEntry

NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of the group coordinator; transaction coordinators expect errors of partitions."""


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    writing = _Writing(request, LocalMarkers(broker.partitions, broker.groups, broker.runtime))
    return writing.response() if writing.begin_some() and writing.is_done else writing.finish()


class _Writing:
    """Writes the markers of one request."""

    def __init__(self, request: WriteTxnMarkersRequest, markers: LocalMarkers) -> None:
        self._markers = markers
        self._errors: dict[int, dict[TopicPartition, ErrorCode]] = {
            marker.producer_id: {} for marker in request.markers
        }
        self._to_begin = (
            (marker, TopicPartition(topic.name, index))
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        )
        self._in_progress = 0
        self._last_done: asyncio.Future[None] | None = None

    def begin_some(self) -> bool:
        """Write the markers of one turn of the loop; return whether these were the last ones."""
        begun = 0
        for wanted, partition in islice(self._to_begin, MARKERS_AT_ONCE):
            begun += 1
            self._begin(wanted, partition)
        return begun < MARKERS_AT_ONCE

    def _begin(self, wanted: WritableTxnMarker, partition: TopicPartition) -> None:
        marker = TxnMarkerEntry(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.coordinator_epoch,
            wanted.transaction_result,
            wanted.transaction_version,
        )
        done = partial(self._done, self._errors[wanted.producer_id])
        self._in_progress += 1
        if _is_valid(marker):
            self._markers.write(marker, (partition,), done)
        else:
            done(partition, ErrorCode.INVALID_REQUEST)

    def _done(
        self, errors: dict[TopicPartition, ErrorCode], partition: TopicPartition, error: ErrorCode
    ) -> None:
        errors[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER if error in NOT_READY else error
        self._in_progress -= 1
        if self._last_done is not None and self.is_done and not self._last_done.done():
            self._last_done.set_result(None)

    @property
    def is_done(self) -> bool:
        """Whether all started markers are written."""
        return self._in_progress == 0

    async def finish(self) -> WriteTxnMarkersResponse:
        while not self.begin_some():
            await asyncio.sleep(0)
        if not self.is_done:
            self._last_done = asyncio.get_running_loop().create_future()
            await self._last_done
        return self.response()

    def response(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(errors))
                for producer_id, errors in self._errors.items()
            ]
        )


def _is_valid(marker: TxnMarkerEntry) -> bool:
    return marker.producer_id >= 0 and marker.producer_epoch >= 0 and marker.transaction_version >= 0


def _by_topic(errors: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for partition, error in errors.items():
        topics.setdefault(partition.topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=partition.partition, error_code=error)
        )
    return [WritableTxnMarkerTopicResult(name=name, partitions=results) for name, results in topics.items()]
