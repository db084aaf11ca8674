"""Transaction markers: where they are written, when they are confirmed, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode
from penstock.broker import transaction_markers
from penstock.broker.handlers.write_txn_markers import handle
from penstock.broker.transaction_markers import MARKERS_AT_ONCE, LocalMarkers
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.records.control import TxnMarkerEntry

OTHER_NODE = 2
COMMIT = TxnMarkerEntry(7, 0, 0, True, 1)
Context = Callable[..., Any]


class Groups:
    """A group coordinator that records ended transactions, with a configurable result."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, TxnMarkerEntry]] = []
        self.says: Refused | asyncio.Future[None] | None = None

    def end_transaction(self, partition: int, marker: TxnMarkerEntry) -> asyncio.Future[None] | None:
        if isinstance(self.says, Refused):
            raise self.says
        self.ended.append((partition, marker))
        return self.says


@pytest.fixture
def groups(node: DataNode) -> Groups:
    groups: Any = Groups()
    node.broker.groups = groups
    return groups  # type: ignore[no-any-return]


def write(
    node: DataNode, groups: Any, *partitions: tuple[str, int], marker: TxnMarkerEntry = COMMIT
) -> list[Any]:
    results: list[Any] = []
    LocalMarkers(node.partitions, groups, node.runtime).write(
        marker,
        [TopicPartition(*each) for each in partitions],
        lambda where, error: results.append((where.topic, where.partition, error)),
    )
    return results


async def test_a_marker_is_appended_and_confirmed_at_once(node: DataNode, groups: Groups) -> None:
    assert write(node, groups, ("orders", 0)) == [("orders", 0, ErrorCode.NONE)]
    assert node.partition().log.end_offset == 1


async def test_a_partition_that_is_no_more_does_not_keep_others_from_hearing(
    node: DataNode, groups: Groups
) -> None:
    assert write(node, groups, ("gone", 0), ("orders", 0)) == [
        ("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, ErrorCode.NONE),
    ]


async def test_a_marker_is_written_when_all_in_sync_replicas_have_it(
    cluster: Cluster, node: DataNode, groups: Groups
) -> None:
    cluster.add_topic("shared", replicas=[NODE_ID, OTHER_NODE])
    results = write(node, groups, ("shared", 0))
    assert results == []

    node.partition("shared").follower_fetched(
        OTHER_NODE, end_offset=1, start_offset=0, leader_epoch=0, now_ms=0
    )

    assert results == [("shared", 0, ErrorCode.NONE)]


async def test_an_older_coordinator_is_fenced(node: DataNode, groups: Groups) -> None:
    write(node, groups, ("orders", 0), marker=COMMIT._replace(coordinator_epoch=5))

    assert write(node, groups, ("orders", 0)) == [("orders", 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)]


async def test_groups_write_their_own_markers(cluster: Cluster, node: DataNode, groups: Groups) -> None:
    cluster.add_topic(OFFSETS_TOPIC, partitions=4)

    assert write(node, groups, (OFFSETS_TOPIC, 3)) == [(OFFSETS_TOPIC, 3, ErrorCode.NONE)]
    assert groups.ended == [(3, COMMIT)]


async def test_a_marker_for_a_deleted_offsets_topic_is_refused(node: DataNode, groups: Groups) -> None:
    groups.says = Refused(ErrorCode.NOT_COORDINATOR, "elsewhere, for all that groups know")

    assert write(node, groups, (OFFSETS_TOPIC, 3)) == [
        (OFFSETS_TOPIC, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]


async def test_the_group_coordinator_may_complete_later_or_refuse(
    cluster: Cluster, node: DataNode, groups: Groups
) -> None:
    cluster.add_topic(OFFSETS_TOPIC, partitions=4)
    loop = asyncio.get_running_loop()
    good, bad = loop.create_future(), loop.create_future()
    results = []
    for groups.says in (good, bad):
        results.append(write(node, groups, (OFFSETS_TOPIC, 3)))
    good.set_result(None)
    bad.set_exception(Refused(ErrorCode.NOT_COORDINATOR, "moved"))
    await asyncio.sleep(0)

    assert results == [[(OFFSETS_TOPIC, 3, ErrorCode.NONE)], [(OFFSETS_TOPIC, 3, ErrorCode.NOT_COORDINATOR)]]


async def test_a_marker_that_fails_is_logged_and_to_be_sent_again(
    cluster: Cluster,
    node: DataNode,
    groups: Groups,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure was not reported, and the transaction stayed open forever."""
    cluster.add_topic(OFFSETS_TOPIC, partitions=4)
    groups.says = asyncio.get_running_loop().create_future()
    results = write(node, groups, (OFFSETS_TOPIC, 3))
    groups.says.set_exception(ValueError("an epoch of straw"))
    await asyncio.sleep(0)

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a log of straw")

    monkeypatch.setattr(transaction_markers, "append_marker", fail)
    results += write(node, groups, ("orders", 0))

    assert results == [
        (OFFSETS_TOPIC, 3, ErrorCode.UNKNOWN_SERVER_ERROR),
        ("orders", 0, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]
    assert "an epoch of straw" in caplog.text
    assert "a log of straw" in caplog.text


async def test_others_get_their_turn_between_many_markers(
    cluster: Cluster, node: DataNode, groups: Groups
) -> None:
    count = 2 * MARKERS_AT_ONCE + 1
    cluster.add_topic("many", partitions=count)
    results = write(node, groups, *(("many", index) for index in range(count)))
    seen = []
    while len(results) < count:
        seen.append(len(results))
        await asyncio.sleep(0)

    assert seen == [MARKERS_AT_ONCE, 2 * MARKERS_AT_ONCE]
    assert results == [("many", index, ErrorCode.NONE) for index in range(count)]


# -- WriteTxnMarkers


def request(*markers: WritableTxnMarker) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=list(markers))


def marker_for(*topics: str, producer_id: int = 7, epoch: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0]) for topic in topics],
    )


def told_by(response: Any) -> dict[tuple[int, str], ErrorCode]:
    assert isinstance(response, WriteTxnMarkersResponse)
    return {
        (marker.producer_id, topic.name): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


async def test_every_partition_of_every_marker_has_a_result(
    cluster: Cluster, node: DataNode, groups: Groups, context: Context
) -> None:
    cluster.add_topic(OFFSETS_TOPIC)
    groups.says = Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    asked = request(marker_for("orders", OFFSETS_TOPIC), marker_for("gone", "orders", producer_id=8))

    assert told_by(handle(node.broker, asked, context(version=1))) == {
        (7, "orders"): ErrorCode.NONE,
        (7, OFFSETS_TOPIC): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        (8, "gone"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (8, "orders"): ErrorCode.NONE,
    }


async def test_the_response_waits_for_the_last_marker(
    cluster: Cluster, node: DataNode, groups: Groups, context: Context
) -> None:
    cluster.add_topic("shared", replicas=[NODE_ID, OTHER_NODE])
    waiting = asyncio.ensure_future(
        handle(node.broker, request(marker_for("orders", "shared")), context(version=2))  # type: ignore[arg-type]
    )
    await asyncio.sleep(0)
    assert not waiting.done()

    node.partition("shared").follower_fetched(
        OTHER_NODE, end_offset=1, start_offset=0, leader_epoch=0, now_ms=0
    )

    assert told_by(await waiting) == {(7, "orders"): ErrorCode.NONE, (7, "shared"): ErrorCode.NONE}


async def test_markers_that_are_committed_before_the_wait_get_a_response(
    cluster: Cluster, node: DataNode, groups: Groups, context: Context
) -> None:
    """The task that waits has its first turn after others had theirs."""
    cluster.add_topic("shared", replicas=[NODE_ID, OTHER_NODE])
    response: Any = handle(node.broker, request(marker_for("shared")), context(version=2))
    node.partition("shared").follower_fetched(
        OTHER_NODE, end_offset=1, start_offset=0, leader_epoch=0, now_ms=0
    )

    async with asyncio.timeout(5):
        assert told_by(await response) == {(7, "shared"): ErrorCode.NONE}


async def test_others_get_their_turn_between_many_markers_of_a_request(
    node: DataNode, groups: Groups, context: Context
) -> None:
    """A few kilobytes may ask for seconds of work, and name the same partition again and again."""
    markers = [marker_for("orders", producer_id=each) for each in range(MARKERS_AT_ONCE + 1)]
    waiting = asyncio.ensure_future(handle(node.broker, request(*markers), context(version=2)))  # type: ignore[arg-type]
    assert node.partition().log.end_offset == MARKERS_AT_ONCE

    assert told_by(await waiting) == {(each.producer_id, "orders"): ErrorCode.NONE for each in markers}
    assert node.partition().log.end_offset == len(markers)


async def test_a_request_without_markers_gets_an_empty_response(
    node: DataNode, groups: Groups, context: Context
) -> None:
    assert told_by(handle(node.broker, request(), context(version=1))) == {}
