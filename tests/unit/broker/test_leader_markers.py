"""Transaction markers for leaders on other brokers: where they are sent, in which requests, and what errors become."""

from __future__ import annotations

from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode
from harness.other_brokers import FakeBrokers, settle
from penstock.broker.broker_requests import IN_FLIGHT_MAX
from penstock.broker.leader_markers import LeaderMarkers
from penstock.broker.transaction_markers import LocalMarkers
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.image import NO_LEADER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.records.control import TxnMarkerEntry

TWO, THREE = 2, 3
COMMIT = TxnMarkerEntry(7, 0, 5, True, 2)


class Markers:
    """`LeaderMarkers` of node 1 with fake brokers, and what their caller was told."""

    def __init__(self, cluster: Cluster, node: DataNode) -> None:
        nothing: Any = None
        self.error = ErrorCode.NONE
        self.brokers = FakeBrokers(self._answer)
        self.results: list[tuple[str, int, ErrorCode]] = []
        self._markers = LeaderMarkers(
            LocalMarkers(node.partitions, nothing, node.runtime),
            node_id=NODE_ID,
            image=lambda: cluster.metadata.image,
            brokers=self.brokers,
        )

    def write(self, *partitions: tuple[str, int], marker: TxnMarkerEntry = COMMIT) -> None:
        self._markers.write(
            marker,
            [TopicPartition(*each) for each in partitions],
            lambda where, error: self.results.append((*where, error)),
        )

    def sent(self) -> list[tuple[int, list[tuple[int, str, list[int]]]]]:
        """For each request: the broker, and producer id, topic and partitions."""
        return [
            (
                node_id,
                [
                    (marker.producer_id, topic.name, topic.partition_indexes)
                    for marker in request.markers
                    for topic in marker.topics
                ],
            )
            for node_id, request in self.brokers.asked
        ]

    def _answer(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=self.error)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )


@pytest.fixture
def markers(cluster: Cluster, node: DataNode) -> Markers:
    cluster.add_topic("two", partitions=3, replicas=[TWO])
    cluster.add_topic("three", replicas=[THREE])
    return Markers(cluster, node)


async def test_each_leader_gets_one_request_and_the_own_partitions_are_written_here(
    node: DataNode, markers: Markers
) -> None:
    markers.write(("two", 0), ("orders", 0), ("three", 0), ("two", 2))
    assert markers.results == [("orders", 0, ErrorCode.NONE)]

    await settle()

    assert markers.sent() == [(TWO, [(7, "two", [0, 2])]), (THREE, [(7, "three", [0])])]
    assert sorted(markers.results[1:]) == [
        ("three", 0, ErrorCode.NONE),
        ("two", 0, ErrorCode.NONE),
        ("two", 2, ErrorCode.NONE),
    ]
    assert node.partition().log.end_offset == 1


async def test_markers_carry_the_epochs_and_the_version_of_the_transaction(markers: Markers) -> None:
    markers.write(("two", 0))
    await settle()

    ((_, request),) = markers.brokers.asked
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 0, 5)
    assert marker.transaction_result is True
    assert marker.transaction_version == 2


async def test_transactions_of_one_moment_share_a_request(markers: Markers) -> None:
    for producer_id in (7, 8, 9):
        markers.write(("two", 1), marker=COMMIT._replace(producer_id=producer_id))
    await settle()

    assert markers.sent() == [(TWO, [(7, "two", [1]), (8, "two", [1]), (9, "two", [1])])]


async def test_a_broker_that_does_not_answer_gets_only_a_few_requests(markers: Markers) -> None:
    markers.brokers.is_holding = True
    for producer_id in range(10):
        markers.write(("two", 0), marker=COMMIT._replace(producer_id=producer_id))
        await settle()
    assert len(markers.sent()) == IN_FLIGHT_MAX

    await markers.brokers.release()

    *_, (_, last) = markers.sent()
    assert [producer_id for producer_id, _, _ in last] == [5, 6, 7, 8, 9]
    assert len(markers.results) == 10


async def test_a_partition_without_a_leader_is_retried_and_a_deleted_one_is_done(
    cluster: Cluster, markers: Markers
) -> None:
    cluster.add_topic("lost", replicas=[TWO], leader=NO_LEADER)

    markers.write(("lost", 0), ("deleted", 0), ("two", 99))

    assert markers.results == [
        ("lost", 0, ErrorCode.LEADER_NOT_AVAILABLE),
        ("deleted", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("two", 99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_a_broker_that_does_not_know_the_topic_yet_does_not_end_the_marker(markers: Markers) -> None:
    """Its metadata is behind. The marker would be lost, and the partition stuck at its last stable offset."""
    markers.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    markers.write(("two", 0))
    await settle()

    assert markers.results == [("two", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ],
)
async def test_other_errors_of_a_leader_are_reported(markers: Markers, error: ErrorCode) -> None:
    markers.error = error
    markers.write(("two", 0))
    await settle()

    assert markers.results == [("two", 0, error)]


async def test_a_lost_connection_is_an_error_for_each_partition(markers: Markers) -> None:
    markers.brokers.down.add(TWO)
    markers.write(("two", 0), ("two", 1), ("three", 0))
    await settle()

    assert sorted(markers.results) == [
        ("three", 0, ErrorCode.NONE),
        ("two", 0, ErrorCode.NETWORK_EXCEPTION),
        ("two", 1, ErrorCode.NETWORK_EXCEPTION),
    ]


async def test_a_partition_that_the_response_leaves_out_is_retried(markers: Markers) -> None:
    markers.brokers.answer = lambda node_id, request: WriteTxnMarkersResponse(markers=[])
    markers.write(("two", 0))
    await settle()

    assert markers.results == [("two", 0, ErrorCode.UNKNOWN_SERVER_ERROR)]


async def test_a_response_that_makes_no_sense_is_an_error_too(
    markers: Markers, caplog: pytest.LogCaptureFixture
) -> None:
    markers.brokers.answer = lambda node_id, request: None
    markers.write(("two", 0))
    await settle()

    assert markers.results == [("two", 0, ErrorCode.NETWORK_EXCEPTION)]
    assert "transaction markers to broker 2 failed" in caplog.text


async def test_a_partition_of_this_broker_that_is_not_open_yet_is_retried(
    cluster: Cluster, node: DataNode, markers: Markers
) -> None:
    """Its marker was taken for that of a deleted partition, and never written."""
    cluster.metadata.unsubscribe(node.partitions.apply)
    cluster.add_topic("new")
    markers.write(("new", 0))

    assert markers.results == [("new", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    cluster.metadata.subscribe(node.partitions.apply)
