"""Sends transaction markers to the leaders of partitions, on this node and on others (WriteTxnMarkers).

The leader is looked up in the metadata for every attempt. A partition that the metadata does not have is deleted, and
needs no marker: a coordinator adds only partitions that it knows, and its successor is elected by a later metadata
record than the one that created them. Any error of another broker is retried by `coordinator.txn.markers`, because that
broker may be behind: also UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.broker_requests import NodeQueues, OtherBrokers
from penstock.broker.transaction_markers import LocalMarkers
from penstock.coordinator.txn.markers import PERMANENT_ERRORS, Done
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.image import NO_LEADER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.records.control import TxnMarkerEntry

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

MARKERS_MAX = 1_000
"""Partitions in one request: about 20 KB, and 20 ms of the other broker's time."""


class _Marker(NamedTuple):
    """One marker for one partition of another broker."""

    marker: TxnMarkerEntry
    partition: TopicPartition
    done: Done


class LeaderMarkers:
    """A `coordinator.txn.markers.MarkerWriter` for a cluster."""

    def __init__(
        self, local: LocalMarkers, *, node_id: int, image: Callable[[], MetadataImage], brokers: OtherBrokers
    ) -> None:
        self._local = local
        self._node_id = node_id
        self._image = image
        self._brokers = brokers
        self._queues: NodeQueues[_Marker] = NodeQueues(
            "transaction markers", self._send, _failed, items_max=MARKERS_MAX
        )

    def write(self, marker: TxnMarkerEntry, partitions: Sequence[TopicPartition], done: Done) -> None:
        """`done` is called once per partition, possibly before this returns, with NONE when the marker is committed."""
        topics = self._image().topics
        local = []
        for each in partitions:
            found = topics.partition(each.topic, each.partition)
            if found is None:
                done(each, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif found.leader == self._node_id:
                local.append(each)
            elif found.leader == NO_LEADER:
                done(each, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                self._queues.add(found.leader, _Marker(marker, each, done))
        if local:
            # A large change of the metadata is applied in steps: a partition of this node may not be open yet.
            self._local.write(marker, local, lambda where, error: done(where, _as_retried(error)))

    async def close(self) -> None:
        await self._queues.close()

    async def _send(self, node_id: int, items: list[_Marker]) -> None:
        response: WriteTxnMarkersResponse = await self._brokers.ask(node_id, _request(items))
        errors = {
            (marker.producer_id, topic.name, partition.partition_index): partition.error_code
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
        for item in items:
            # A broker that does not answer for a partition has not written its marker.
            error = errors.get((item.marker.producer_id, *item.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            item.done(item.partition, _as_retried(error))


def _request(items: list[_Marker]) -> WriteTxnMarkersRequest:
    markers: dict[TxnMarkerEntry, dict[str, list[int]]] = {}
    for item in items:
        indexes = markers.setdefault(item.marker, {}).setdefault(item.partition.topic, [])
        indexes.append(item.partition.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.is_commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, topics in markers.items()
        ]
    )


def _as_retried(error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.NONE or error in PERMANENT_ERRORS:
        return error
    # The caller would take it for a deleted partition.
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error


def _failed(items: list[_Marker], error: Exception) -> None:
    """The markers may be written or not. Writing them again changes nothing."""
    for item in items:
        item.done(item.partition, ErrorCode.NETWORK_EXCEPTION)
